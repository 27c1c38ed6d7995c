"""Rules that fold transforms into weights, in two directions: to who makes rows, to who reads them.

They are proved like the rules of `ascendfx.passes.rules`, and applied to transforms alone.
"""

from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import compose_linears
from ascendfx.quant_passes.migration.rules import (
    part_of_rows,
    rotation_around_norm,
    rotation_past,
    scale_into_columns,
    scale_into_producer,
    scale_past_rows,
)

SCALES: tuple[Rule, ...] = (
    *scale_into_columns.RULES,
    *scale_past_rows.RULES,
    rotation_around_norm.JOINED_SCALES,
    *scale_into_producer.RULES,
    part_of_rows.EXPERTS,
    part_of_rows.HEAD_SCALE,
)
"""Products with factors go to the readers, quotients to the producer."""

UP: tuple[Rule, ...] = (
    rotation_around_norm.CANCEL,
    *rotation_past.UP,
    part_of_rows.HEAD_ROTATION,
    part_of_rows.PART_ROTATION,
)
"""Rotations go to what makes the rows."""

DOWN: tuple[Rule, ...] = (
    rotation_around_norm.NORM,
    rotation_around_norm.JOINED,
    *rotation_past.DOWN,
)
"""Rotations back go to what reads the rows."""

COMPOSE: Rule = compose_linears.COMPOSE
"""Both meet their weight by it."""

GAIN: Rule = scale_into_producer.GAIN
"""Makes the gain of a chosen norm a scale."""

RULES: tuple[Rule, ...] = (*SCALES, *UP, *DOWN, GAIN)
"""All that are proved here."""
