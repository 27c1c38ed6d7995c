"""Scales of a weight by columns, for algorithms that round one column at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.formats.format import Codes, Float64s, Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import PerGroup


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Scales and zero points ``[columns, out]`` or ``[1, out]`` of some columns."""

    scale: Float64s
    zero: Float64s | None
    zero_first: bool

    def rounded(self, values: Float64s, column: int, form: Format) -> tuple[Codes, Float64s]:
        """Return codes and numbers of a column ``[out]``."""
        scale = self.scale[column if len(self.scale) > 1 else 0]
        zero = None if self.zero is None else self.zero[column if len(self.zero) > 1 else 0]
        codes = values / scale
        if not isinstance(form, Integer):
            held = form.encode(codes if zero is None else codes + zero)
            decoded = form.decode(held)
            return held, (decoded if zero is None else decoded - zero) * scale
        if zero is not None:
            codes = codes + zero if self.zero_first else form.rounded(codes) + zero
        codes = np.clip(form.rounded(codes), form.low, form.high)
        held = codes.astype(form.codes)
        return held, (codes if zero is None else codes - zero) * scale


def affine_by_columns(affine: Affine, shape: tuple[int, ...], places: NDArray[Any]) -> Columns:
    """Return the scales of the columns at ``places`` of a weight ``[out, in]``."""

    def turned(scales: NDArray[Any]) -> Float64s:
        if isinstance(affine.granularity, PerGroup):
            groups = scales[:, places // affine.granularity.size]
            return np.ascontiguousarray(groups.T, np.float64)
        spread = affine.granularity.spread(scales, shape)
        if spread.shape[1] > 1:
            spread = spread[:, places]
        spread = np.broadcast_to(spread, (shape[0], spread.shape[1]))
        return np.ascontiguousarray(spread.T, np.float64)

    zero = None if affine.zero is None else turned(affine.zero)
    return Columns(turned(affine.scale), zero, affine.zero_first)
