"""Round to nearest: scales from the extrema, and the nearest code for each value."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import Granularity
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import DYNAMIC, ScaleRule, Scales


def round_to_nearest(
    values: NDArray[Any], form: Format, granularity: Granularity, rule: ScaleRule = DYNAMIC
) -> QuantizedTensor:
    """Return the values in a format, with scales of their own.

    Args:
        values: ``[*leading, out, in]`` or any other shape that the granularity takes; empty ones,
            rows of zeros and arrays that are not contiguous, too.
        form: The format.
        granularity: Which values share a scale.
        rule: How a scale follows from the extrema.

    Raises:
        GraphError: `values-not-finite`: a value is infinite or not a number; `bad-granularity`;
            `bad-format`: the rule does not fit the format; `not-numbers`.
    """
    numbers = as_numbers(values)
    affine = affine_of(extreme_scales(numbers, form, granularity, rule), granularity, rule)
    return QuantizedTensor(affine.quantize(numbers, form), affine, form)


def extreme_scales(
    values: NDArray[Any], form: Format, granularity: Granularity, rule: ScaleRule
) -> Scales:
    """Return the scales that a rule finds for the extrema of some values.

    Raises:
        GraphError: As `round_to_nearest`.
    """
    require_code_per_value(form)
    numbers = as_numbers(values)
    low, high = (granularity.reduce(numbers, ufunc) for ufunc in (np.minimum, np.maximum))
    return rule.scales(low, high, form)


def require_code_per_value(form: Format) -> None:
    """Refuse formats with scales of their own, codecs and vector codebooks.

    Raises:
        GraphError: `bad-format`.
    """
    if not isinstance(form, Format):  # pyright: ignore[reportUnnecessaryIsInstance]
        name = getattr(form, "name", type(form).__name__)
        reason = f"`{name}` has no code per value that a scale could be chosen for"
        hint = "call encode of a format that brings scales of its own, a codec or a vector codebook"
        raise GraphError("bad-format", reason, hint=hint)


def affine_of(scales: Scales, granularity: Granularity, rule: ScaleRule) -> Affine:
    """Return scales that a rule found as those of a tensor, with its order of rounding."""
    return Affine(
        scales.scale, scales.zero, granularity, rule.zero_first, rule.compute, rule.stored
    )
