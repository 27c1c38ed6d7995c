"""FP8: E4M3FN and E5M2 (OCP 8-bit Floating Point Specification, revision 1.0, section 5)."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers, require_codes
from ascendfx.quant_passes.formats.bit_lookup import BitLookup, bit_lookup
from ascendfx.quant_passes.formats.format import Codes, Conduct, Float64s, Floats
from ascendfx.quant_passes.formats.magnitude_codes import magnitude_codes
from ascendfx.quant_passes.formats.nearest_value import half_gap

Overflow = Literal["saturate", "ieee"]


@dataclass(frozen=True, slots=True)
class _Float8:
    """Sign, exponent, mantissa; nearest value, ties to even, subnormals, zeros with a sign.

    Attributes:
        overflow: ``saturate``: what is beyond the largest value becomes that value, infinities too
            (clamp, then cast). ``ieee``: from the middle to the value that would be next it becomes
            infinity, or NaN in a format without one. Libraries differ in this (torch on the CPU
            saturates E4M3FN, `ml_dtypes` does not; both overflow in E5M2).
    """

    exponent_bits: ClassVar[int]
    mantissa_bits: ClassVar[int]
    nan_code: ClassVar[int]
    infinity_code: ClassVar[int | None]
    largest_code: ClassVar[int]

    overflow: Overflow = "saturate"

    def __post_init__(self) -> None:
        if self.overflow not in {"saturate", "ieee"}:
            reason = f"{self.name}: overflow `{self.overflow}` is not known"
            raise GraphError("bad-format", reason, hint="use `saturate` or `ieee`")

    @property
    def name(self) -> str:
        """Name of the format, with ``-ieee`` if it does not saturate."""
        plain = f"float8_e{self.exponent_bits}m{self.mantissa_bits}"
        finite = "fn" if self.infinity_code is None else ""
        return f"{plain}{finite}{'' if self.overflow == 'saturate' else '-ieee'}"

    @property
    def bits(self) -> int:
        """8."""
        return 8

    @property
    def codes(self) -> np.dtype[Any]:
        """uint8."""
        return np.dtype(np.uint8)

    @property
    def largest(self) -> float:
        """448 (E4M3FN) or 57344 (E5M2)."""
        return float(_magnitudes(type(self))[self.largest_code])

    @property
    def conduct(self) -> Conduct:
        """Ties to even; NaN has a code; the rest is as `overflow` says."""
        if self.overflow == "saturate":
            return Conduct(nan="nan")
        beyond = "nan" if self.infinity_code is None else "infinity"
        return Conduct(overflow=beyond, infinity=beyond, nan="nan")

    def every_code(self) -> Codes:
        """Return all 256 codes."""
        return np.arange(256).astype(np.uint8)

    def encode(self, values: Floats) -> Codes:
        """Return the code of each number; NaN keeps its sign.

        Raises:
            GraphError: `not-numbers`.
        """
        return _lookup(type(self), self.overflow).encode(as_numbers(values))

    def decode(self, codes: Codes) -> Float64s:
        """Return the value of each code.

        Raises:
            GraphError: `code-out-of-range`.
        """
        return _values(type(self))[require_codes(codes, 0, 255, self.name)]

    def error_bound(self, values: Floats) -> Float64s:
        """Return half the gap between the neighbours of each number."""
        numbers = np.abs(as_numbers(values).astype(np.float64))
        return half_gap(_magnitudes(type(self))[: self.largest_code + 1], numbers)


@dataclass(frozen=True, slots=True)
class E4M3FN(_Float8):
    """Largest 448, smallest normal 2^-6, smallest subnormal 2^-9; NaN 0x7F, no infinity."""

    exponent_bits: ClassVar[int] = 4
    mantissa_bits: ClassVar[int] = 3
    nan_code: ClassVar[int] = 0x7F
    infinity_code: ClassVar[int | None] = None
    largest_code: ClassVar[int] = 0x7E


@dataclass(frozen=True, slots=True)
class E5M2(_Float8):
    """Largest 57344, smallest normal 2^-14, smallest subnormal 2^-16; infinity 0x7C.

    NaN becomes 0x7E, as in `ml_dtypes`; torch writes 0x7F. All three NaN codes are read.
    """

    exponent_bits: ClassVar[int] = 5
    mantissa_bits: ClassVar[int] = 2
    nan_code: ClassVar[int] = 0x7E
    infinity_code: ClassVar[int | None] = 0x7C
    largest_code: ClassVar[int] = 0x7B


@cache
def _magnitudes(kind: type[_Float8]) -> Float64s:
    """Return ``[128]`` what each code without a sign would be if all exponents were normal."""
    code = np.arange(128)
    exponent = code >> kind.mantissa_bits
    mantissa = code & ((1 << kind.mantissa_bits) - 1)
    bias = (1 << (kind.exponent_bits - 1)) - 1
    leading = np.where(exponent > 0, 1 << kind.mantissa_bits, 0)
    power = np.maximum(exponent, 1) - bias - kind.mantissa_bits
    return np.ldexp((leading + mantissa).astype(np.float64), power)


@cache
def _values(kind: type[_Float8]) -> Float64s:
    """Return ``[256]`` the value of each code."""
    positive = _magnitudes(kind).copy()
    positive[kind.largest_code + 1 :] = np.nan
    if kind.infinity_code is not None:
        positive[kind.infinity_code] = np.inf
    return np.concatenate([positive, -positive])


@cache
def _lookup(kind: type[_Float8], overflow: Overflow) -> BitLookup:
    # With `ieee`, the code behind the largest value is that of infinity, or of NaN without one.
    count = kind.largest_code + 1 + (overflow == "ieee")
    values = _magnitudes(kind)[:count]
    beyond = kind.nan_code if kind.infinity_code is None else kind.infinity_code
    encoder = magnitude_codes(
        values.tolist(),
        tie_goes_up=np.arange(1, count) % 2 == 0,
        infinity=beyond if overflow == "ieee" else kind.largest_code,
        nan=kind.nan_code,
        signed_zero=True,
    )
    return bit_lookup(encoder.encode)
