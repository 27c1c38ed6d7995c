"""Parts of a weight that share no scale, small enough for the cache."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import Granularity, PerBlock, PerTensor

_VALUES = 1 << 16
"""Values at a time; algorithms hold about eight arrays of that many float64."""


def row_parts(shape: tuple[int, ...], granularity: Granularity) -> Iterator[slice]:
    """Yield slices of rows; one of all rows if they share scales."""
    rows, columns = shape
    tall = max(1, _VALUES // max(1, columns))
    if isinstance(granularity, PerTensor | PerBlock) or rows <= tall:
        yield slice(None)
        return
    for top in range(0, rows, tall):
        yield slice(top, min(rows, top + tall))


def rows_of(affine: Affine, rows: slice) -> Affine:
    """Return the scales of some rows, or all."""
    zero = None if affine.zero is None else affine.zero[rows]
    return replace(affine, scale=affine.scale[rows], zero=zero)


def joined_rows(parts: Sequence[Affine]) -> Affine:
    """Return the scales of parts of rows one below the other."""
    zeros = [part.zero for part in parts if part.zero is not None]
    scale = np.concatenate([part.scale for part in parts])
    return replace(parts[0], scale=scale, zero=np.concatenate(zeros) if zeros else None)
