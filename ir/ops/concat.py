"""Tensors joined along an axis."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim, simplify_size
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Concat(Op):
    """The operands one after the other along ``axis``; any number of them.

    Attributes:
        axis: Counted from zero.
    """

    mnemonic: ClassVar[str] = "concat"

    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the joined type.

        Raises:
            OpTypeError: Formats, ranks or the other axes differ.
        """
        first = operands[0]
        if not 0 <= self.axis < first.rank:
            raise OpTypeError(f"concat: {first} has no axis {self.axis}")
        total: Dim = 0
        for each in operands:
            others = each.shape[: self.axis] + each.shape[self.axis + 1 :]
            expected = first.shape[: self.axis] + first.shape[self.axis + 1 :]
            if each.dtype is not first.dtype or each.rank != first.rank or others != expected:
                raise OpTypeError(f"concat: {first} and {each} differ outside axis {self.axis}")
            total = simplify_size(total + each.shape[self.axis])
        return (
            first.with_shape((*first.shape[: self.axis], total, *first.shape[self.axis + 1 :])),
        )

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Join."""
        return (np.concatenate(operands, axis=self.axis),)
