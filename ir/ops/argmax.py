"""Index of the largest element."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Argmax(Op):
    """The lowest index of the maximum of the last axis, ``i32``: greedy sampling."""

    mnemonic: ClassVar[str] = "argmax"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the shape without the last axis.

        Raises:
            OpTypeError: The operand has no axes.
        """
        (a,) = operands
        if a.rank < 1:
            raise OpTypeError(f"argmax: {a} has no axes")
        return (TensorType(DType.I32, a.shape[:-1]),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Find it."""
        return (np.argmax(operands[0], axis=-1),)
