"""Normalised exponentials."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.pointwise import apply_function, holds_symbols
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Softmax(Op):
    """``y_i = e^(a_i - max a) / sum_j e^(a_j - max a)`` along one axis.

    Attributes:
        axis: Counted from zero.
    """

    mnemonic: ClassVar[str] = "softmax"

    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the operand's type.

        Raises:
            OpTypeError: The axis does not exist or the operand is not a float.
        """
        (a,) = operands
        if not 0 <= self.axis < a.rank or not a.dtype.is_float:
            raise OpTypeError(f"softmax: {a} has no float axis {self.axis}")
        return (a,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Normalise; symbols are not shifted, because the shift cancels."""
        (a,) = operands
        shifted = a if holds_symbols(a) else a - np.max(a, axis=self.axis, keepdims=True)
        e = apply_function("exp", shifted)
        return (e / np.sum(e, axis=self.axis, keepdims=True),)
