"""Tensor types: an element format and a shape whose sizes may be symbolic."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from ml_dtypes import bfloat16

from ascendfx.ir.size import Dim, names_in, print_size, substitute_size


class DType(enum.Enum):
    """Element formats; the value is the spelling used in the text form."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I64 = "i64"
    I32 = "i32"
    I8 = "i8"
    I4X2 = "i4x2"
    """Two four-bit codes, -8 to 7, in a byte, the first in its low half; shapes count bytes."""
    BOOL = "bool"

    @property
    def bytes(self) -> int:
        """Storage size of one element."""
        return _BYTES[self]

    @property
    def is_float(self) -> bool:
        """Whether values are rounded."""
        return self in _FLOATS

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding to nearest: ``2**-p`` with ``p`` digits.

        0 for formats without rounding. Source: IEEE 754-2019, table 3.5 (p of binary64, binary32,
        binary16); bfloat16 has the 8 digits of a float32 cut in half.
        """
        return 2.0 ** -_DIGITS[self] if self in _DIGITS else 0.0

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy format with the same storage (``ml_dtypes`` for bf16)."""
        return _NUMPY[self]


_BYTES = {
    DType.F64: 8,
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.I64: 8,
    DType.I32: 4,
    DType.I8: 1,
    DType.I4X2: 1,
    DType.BOOL: 1,
}
_DIGITS = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}
_FLOATS = frozenset(_DIGITS)
_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(bfloat16),
    DType.I64: np.dtype(np.int64),
    DType.I32: np.dtype(np.int32),
    DType.I8: np.dtype(np.int8),
    DType.I4X2: np.dtype(np.uint8),
    DType.BOOL: np.dtype(np.bool_),
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a value, for example ``bf16[tokens, 7168]``."""

    dtype: DType
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def names(self) -> frozenset[str]:
        """Names of the symbolic sizes in the shape."""
        return frozenset().union(*map(names_in, self.shape))

    def with_shape(self, shape: tuple[Dim, ...]) -> "TensorType":
        """Return the type of the same element format with another shape."""
        return TensorType(self.dtype, shape)

    def substitute(self, replacements: Mapping[str, Dim]) -> "TensorType":
        """Return the type with named sizes replaced."""
        return TensorType(self.dtype, tuple(substitute_size(d, replacements) for d in self.shape))

    def __str__(self) -> str:
        return f"{self.dtype.value}[{', '.join(map(print_size, self.shape))}]"


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """Return the NumPy broadcast of two shapes, or None if they do not agree.

    A symbolic size agrees with itself and with 1, never with another expression.
    """
    rank = max(len(a), len(b))
    padded_a = (1,) * (rank - len(a)) + a
    padded_b = (1,) * (rank - len(b)) + b
    result: list[Dim] = []
    for x, y in zip(padded_a, padded_b, strict=True):
        if x != y and x != 1 and y != 1:  # noqa: PLR1714  # SymPy sizes are not hashable-equal to 1
            return None
        result.append(y if x == 1 else x)
    return tuple(result)
