"""Permutation of axes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """Axis ``i`` of the result is axis ``permutation[i]`` of the operand.

    Attributes:
        permutation: Old axis at each new place.
    """

    mnemonic: ClassVar[str] = "transpose"

    permutation: tuple[int, ...]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the permuted shape.

        Raises:
            OpTypeError: ``permutation`` is not a permutation of the operand's axes.
        """
        (a,) = operands
        if sorted(self.permutation) != list(range(a.rank)):
            raise OpTypeError(f"transpose: {self.permutation} is no permutation of the axes of {a}")
        return (a.with_shape(tuple(a.shape[axis] for axis in self.permutation)),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Permute."""
        return (np.transpose(operands[0], self.permutation),)
