"""Parts of a tensor with their scales, small enough that intermediate results cost no memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.scaling.granularity import (
    Granularity,
    PerBlock,
    PerGroup,
    PerTensor,
    Shape,
)

_VALUES = 1 << 18
"""Values at a time; a few copies of them in float64 fit the last cache."""

Place = tuple[slice, slice]


@dataclass(frozen=True, slots=True, eq=False)
class RowScales:
    """Scales of a tensor seen as ``[rows, columns]``.

    Attributes:
        scales: ``[rows, segments]`` or ``[1, 1]``.
        width: Columns of a segment; the last one may be cut off.
    """

    scales: NDArray[Any]
    width: int

    def at(self, place: Place) -> NDArray[Any]:
        """Return what broadcasts over the values of a place that starts with a segment."""
        rows, columns = place
        part = self.scales[rows] if len(self.scales) > 1 else self.scales
        if part.shape[1] == 1:
            return part
        segments = part[:, columns.start // self.width : -(-columns.stop // self.width)]
        return np.repeat(segments, self.width, axis=1)[:, : columns.stop - columns.start]


def row_scales(scales: NDArray[Any], granularity: Granularity, shape: Shape) -> RowScales:
    """Return the scales of a tensor by rows.

    Raises:
        GraphError: `bad-granularity`: scales of another shape.
    """
    granularity.require(scales, shape)
    columns = shape[-1] if shape else 1
    match granularity:
        case PerTensor():
            return RowScales(scales.reshape(1, 1), columns)
        case PerBlock():
            tall = np.repeat(scales, granularity.rows, axis=-2)[..., : shape[-2], :]
            return RowScales(as_rows(tall), granularity.columns)
        case PerGroup():
            return RowScales(as_rows(scales), granularity.size)
        case _:
            return RowScales(as_rows(scales), columns)


def as_rows(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values as ``[rows, columns]``; a view if they are contiguous."""
    columns = values.shape[-1] if values.ndim else 1
    return values.reshape(math.prod(values.shape[:-1]), columns)


def places(shape: Shape, granularity: Granularity) -> Iterator[Place]:
    """Yield slices of ``[rows, columns]`` that cover a tensor, each starting with a segment."""
    columns = shape[-1] if shape else 1
    rows = math.prod(shape[:-1])
    if not rows or not columns:
        return
    width = 1
    if isinstance(granularity, PerGroup | PerBlock):
        width = granularity.size if isinstance(granularity, PerGroup) else granularity.columns
    wide = columns if columns <= _VALUES else max(1, _VALUES // width) * width
    tall = max(1, _VALUES // wide)
    for top in range(0, rows, tall):
        for left in range(0, columns, wide):
            bottom, right = min(rows, top + tall), min(columns, left + wide)
            yield slice(top, bottom), slice(left, right)
