"""Rounding with a gradient: what codes and numbers become if scales and offsets move a little."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.formats.format import Bools, Float64s
from ascendfx.quant_passes.formats.integer import Integer


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """Weights ``w`` as ``(code - zero) * scale``, all ``[out, in]``.

    Rounding counts as the identity in derivatives, saturation as a constant (the straight-through
    estimator; Bengio et al., arXiv 1308.3432).

    Attributes:
        codes: Whole numbers.
        decoded: What they stand for.
        inside: Where no code was saturated.
        by_scale: Derivative of `decoded` by the scale of the weight.
    """

    codes: NDArray[Any]
    decoded: NDArray[Any]
    inside: Bools
    by_scale: NDArray[Any]


def rounded(
    weights: Float64s,
    scale: NDArray[Any],
    zero: NDArray[Any] | None,
    form: Integer,
    *,
    offset: NDArray[Any] | None = None,
    zero_first: bool = False,
) -> Rounded:
    """Round weights to integer codes.

    Args:
        weights: ``[out, in]``.
        scale: Broadcasts over them, as ``zero`` does.
        zero: Zero points, None for 0.
        form: The codes.
        offset: Added to ``weights / scale`` before rounding.
        zero_first: Whether zero points are, too.
    """
    ratio = weights / scale
    exact = ratio if offset is None else ratio + offset
    if zero is not None and zero_first:
        whole = form.rounded(exact + zero)
    else:
        whole = form.rounded(exact) if zero is None else form.rounded(exact) + zero
    codes = np.clip(whole, form.low, form.high)
    inside = codes == whole
    steps = codes if zero is None else codes - zero
    return Rounded(codes, steps * scale, inside, np.where(inside, steps - ratio, steps))
