"""Choice between two values."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.pointwise import broadcast_operands
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Select(Op):
    """``y = a where condition else b``, with NumPy broadcasting."""

    mnemonic: ClassVar[str] = "select"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the broadcast of all three shapes in the format of ``a`` and ``b``.

        Raises:
            OpTypeError: The condition is not ``bool``, or formats or shapes do not agree.
        """
        condition, a, b = operands
        if condition.dtype is not DType.BOOL:
            raise OpTypeError(f"select: the condition must be bool, got {condition}")
        shape = broadcast_operands("select", a, b)
        shape = broadcast_operands(
            "select", TensorType(a.dtype, condition.shape), TensorType(a.dtype, shape)
        )
        return (TensorType(a.dtype, shape),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose."""
        condition, a, b = operands
        return (np.where(condition.astype(bool), a, b),)
