"""Elements replaced along an axis."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class ScatterAlong(Op):
    """A copy of ``a`` with ``y[.., ids[.., i, ..], ..] = source[.., i, ..]``, as ``torch.scatter``.

    ``source`` has the shape of ``ids`` or no axes at all. Duplicate ids are the caller's error.

    Attributes:
        axis: Counted from zero.
    """

    mnemonic: ClassVar[str] = "scatter_along"

    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of ``a``.

        Raises:
            OpTypeError: Ranks or formats do not fit.
        """
        a, ids, source = operands
        fits = a.rank == ids.rank and 0 <= self.axis < a.rank and source.shape in (ids.shape, ())
        if not fits or source.dtype is not a.dtype or ids.dtype not in (DType.I32, DType.I64):
            raise OpTypeError(
                f"scatter_along: ids {ids} and source {source} do not fit axis {self.axis} of {a}"
            )
        return (a,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Replace."""
        a, ids, source = operands
        result = a.copy()
        # Not numpy.put_along_axis, which repeats ids of size one along the other axes.
        covered = tuple(
            slice(None) if axis == self.axis else slice(size) for axis, size in enumerate(ids.shape)
        )
        values = np.broadcast_to(source, ids.shape)
        np.put_along_axis(result[covered], ids, values, self.axis)  # a view
        return (result,)
