"""A number written in the graph."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True, eq=False)
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

    def __eq__(self, other: object) -> bool:
        """Compare format, number and sign: zero and negative zero are two constants."""
        return isinstance(other, Constant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[float, float, DType]:
        return self.value, math.copysign(1.0, self.value), self.dtype

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
