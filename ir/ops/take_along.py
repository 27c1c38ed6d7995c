"""Elements chosen along an axis."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class TakeAlong(Op):
    """``y[.., i, ..] = a[.., ids[.., i, ..], ..]``, as ``torch.gather``.

    Attributes:
        axis: Counted from zero. On every other axis ``ids`` is at most as long as ``a``.
    """

    mnemonic: ClassVar[str] = "take_along"

    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the shape of ``ids`` in the format of ``a``.

        Raises:
            OpTypeError: Ranks differ, the axis does not exist, or ids are not integers.
        """
        a, ids = operands
        if (
            a.rank != ids.rank
            or not 0 <= self.axis < a.rank
            or ids.dtype not in (DType.I32, DType.I64)
        ):
            raise OpTypeError(f"take_along: ids {ids} do not fit axis {self.axis} of {a}")
        return (a.with_shape(ids.shape),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose."""
        a, ids = operands
        cut = tuple(slice(None) if i == self.axis else slice(n) for i, n in enumerate(ids.shape))
        return (np.take_along_axis(a[cut], ids, self.axis),)
