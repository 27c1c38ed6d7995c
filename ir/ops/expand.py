"""Repetition along axes of size one."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim, bind_size
from ascendfx.ir.tensor_type import TensorType, broadcast


@dataclass(frozen=True, slots=True)
class Expand(Op):
    """Repeats the operand, as NumPy broadcasting would, to a stated shape.

    Attributes:
        shape: The result's shape.
    """

    mnemonic: ClassVar[str] = "expand"

    shape: tuple[Dim, ...]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the stated shape.

        Raises:
            OpTypeError: The operand does not broadcast to it.
        """
        (a,) = operands
        if a.rank > len(self.shape) or broadcast(a.shape, self.shape) != self.shape:
            raise OpTypeError(f"expand: {a} does not broadcast to {a.with_shape(self.shape)}")
        return (a.with_shape(self.shape),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Repeat."""
        return (np.broadcast_to(operands[0], [bind_size(d, {}) for d in self.shape]),)
