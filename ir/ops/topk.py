"""The largest elements of the last axis."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Topk(Op):
    """The ``k`` largest of the last axis, descending, and their indices (``i64``).

    Ties go to the lower index; PyTorch leaves them open.

    Attributes:
        k: How many.
    """

    mnemonic: ClassVar[str] = "topk"

    k: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return values and indices, both ``[*b, k]``.

        Raises:
            OpTypeError: The last axis is shorter than ``k``.
        """
        (a,) = operands
        if a.rank < 1 or (isinstance(a.shape[-1], int) and a.shape[-1] < self.k):
            raise OpTypeError(f"topk: the last axis of {a} has not {self.k} elements")
        shape = (*a.shape[:-1], self.k)
        return (a.with_shape(shape), TensorType(DType.I64, shape))

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose."""
        (a,) = operands
        ids = np.argsort(-a, axis=-1, kind="stable")[..., : self.k]
        return np.take_along_axis(a, ids, -1), ids
