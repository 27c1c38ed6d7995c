"""A number written in the graph."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Constant(Op):
    """A scalar that broadcasts against anything.

    Numerics: the value is exact; it is not rounded to ``dtype``, because the user's framework and
    the vector unit both apply scalars in float32.

    Attributes:
        value: The number; may be infinite.
        dtype: Element format of the result.
    """

    mnemonic: ClassVar[str] = "constant"

    value: float | int | bool
    dtype: DType

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return a type without axes."""
        return (TensorType(self.dtype, ()),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Return the number."""
        kind = (
            np.float64
            if self.dtype.is_float
            else np.bool_
            if self.dtype is DType.BOOL
            else np.int64
        )
        return (np.asarray(self.value, kind),)
