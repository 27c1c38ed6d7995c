"""A number written in the graph."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType

_END = 2**1024
_LARGE = "the number is larger than any of f64"


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

    @property
    def fault(self) -> str:
        """What keeps the value from being a number of ``dtype``; empty if nothing does.

        Asked where text or a whole program is read: a rule may try formats for which its constant
        has no meaning.
        """
        if self.dtype.is_float:
            return "" if isinstance(self.value, float) or abs(self.value) < _END else _LARGE
        if not math.isfinite(self.value) or self.value != int(self.value):
            return f"{self.value} is no whole number, which {self.dtype.value} holds alone"
        bits = 1 if self.dtype is DType.BOOL else 8 * self.dtype.numpy.itemsize - 1
        low = 0 if self.dtype is DType.BOOL else -(2**bits)
        fits = low <= self.value < 2**bits
        return "" if fits else f"{self.value} is outside of the range of {self.dtype.value}"
