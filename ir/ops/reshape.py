"""Another shape for the same elements."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim, bind_size, product
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Reshape(Op):
    """The same elements in row-major order under another shape.

    Attributes:
        shape: The new shape; its product must be that of the old one.
    """

    mnemonic: ClassVar[str] = "reshape"

    shape: tuple[Dim, ...]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the new shape.

        Raises:
            OpTypeError: The number of elements differs.
        """
        (a,) = operands
        if product(a.shape) != product(self.shape):
            raise OpTypeError(
                f"reshape: {a} has not as many elements as {a.with_shape(self.shape)}"
            )
        return (a.with_shape(self.shape),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Reshape."""
        return (np.reshape(operands[0], [bind_size(d, {}) for d in self.shape]),)
