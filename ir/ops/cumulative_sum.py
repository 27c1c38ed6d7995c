"""Inclusive prefix sums."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class CumulativeSum(Op):
    """``y_i = a_0 + ... + a_i`` along one axis.

    Attributes:
        axis: Counted from zero.
    """

    mnemonic: ClassVar[str] = "cumulative_sum"

    axis: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the operand's type.

        Raises:
            OpTypeError: The axis does not exist.
        """
        (a,) = operands
        if not 0 <= self.axis < a.rank:
            raise OpTypeError(f"cumulative_sum: {a} has no axis {self.axis}")
        return (a,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Add up."""
        return (np.cumsum(operands[0], axis=self.axis),)
