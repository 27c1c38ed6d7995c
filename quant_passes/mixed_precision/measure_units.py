"""Scores of all units, layer by layer: weights and statistics of one layer are in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.quant_passes.calibration.gathered_rows import Collected
from ascendfx.quant_passes.calibration.statistics_by_layer import (
    LayerStatistics,
    statistics_by_layer,
)
from ascendfx.quant_passes.mixed_precision.measures import Measure, SeenUnit
from ascendfx.quant_passes.mixed_precision.unit import Piece, Unit
from ascendfx.quant_passes.statistics import InputStatistics

KEPT = 64
"""Tokens that are kept of each part of the texts."""


@dataclass(frozen=True, slots=True)
class JudgedUnit:
    """A unit with a score for each of its choices.

    Attributes:
        unit: The unit.
        scores: By choice; zeros of a unit with one choice, which is not measured.
    """

    unit: Unit
    scores: tuple[float, ...]


def measure_units(
    units: Sequence[Unit],
    measure: Measure,
    program: Program,
    source: TensorSource,
    windows: NDArray[np.int64] | None,
) -> Iterator[JudgedUnit]:
    """Yield all units with their scores, layer by layer.

    Args:
        units: With more than one choice, or with one: they are not measured.
        measure: What a score is.
        program: As of `statistics_by_layer`.
        source: The weights of the program.
        windows: Token ids ``[windows, length]`` for calibration; None: nothing needs them.

    Raises:
        GraphError: A weight is missing; what algorithms and the measure raise.
    """
    for seen in seen_units(units, program, source, windows, keep=measure.reads_inputs):
        single = len(seen.unit.choices) == 1
        yield JudgedUnit(seen.unit, (0.0,) if single else measure.scores(seen))


def seen_units(
    units: Sequence[Unit],
    program: Program,
    source: TensorSource,
    windows: NDArray[np.int64] | None,
    *,
    keep: bool,
) -> Iterator[SeenUnit]:
    """Yield units with their weights and what calibration knows, layer by layer.

    Args:
        units: In any order.
        program: As of `statistics_by_layer`.
        source: The weights of the program.
        windows: As of `measure_units`.
        keep: Whether some inputs are kept where there is a choice, whatever the algorithms need.

    Raises:
        GraphError: A weight is missing; `values-not-finite`: an activation overflowed.
    """
    owners = {site: unit for unit in units for site in unit.sites}
    needs = {site: _needs(unit, keep=keep) for site, unit in owners.items()}
    waiting = dict.fromkeys(units)
    if windows is not None and any(needs.values()):

        def wanted(key: str) -> Collected | None:
            need = needs.get(key)
            if not need:
                return None
            return Collected("moments" in need, KEPT if "inputs" in need else 0)

        for layer in statistics_by_layer(program, source, windows, wanted):
            for unit in [unit for unit in waiting if all(s in layer.rows for s in unit.sites)]:
                del waiting[unit]
                yield _seen(unit, source, layer)
    for unit in waiting:
        yield _seen(unit, source, None)


def _needs(unit: Unit, *, keep: bool) -> frozenset[str]:
    policies = (policy for choice in unit.choices for policy in choice.policies)
    found = frozenset[str]().union(*(policy.needs for policy in policies if policy))
    return found | {"inputs"} if keep and len(unit.choices) > 1 else found


def _seen(unit: Unit, source: TensorSource, layer: LayerStatistics | None) -> SeenUnit:
    weights = {site: np.asarray(source.load(site)).astype(np.float32) for site in unit.sites}

    def inputs(piece: Piece) -> InputStatistics | None:
        return None if layer is None else layer.of(piece.site, piece.expert)

    return SeenUnit(unit, weights, inputs)
