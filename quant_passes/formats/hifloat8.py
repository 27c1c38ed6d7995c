"""HiFloat8: eight bits whose precision tapers off (Luo et al., arXiv 2409.16626).

The 910B has no hardware for it: there it is a format of storage and emulation.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.as_numbers import as_numbers, require_codes
from ascendfx.quant_passes.formats.bit_lookup import BitLookup, bit_lookup
from ascendfx.quant_passes.formats.format import Codes, Conduct, Float64s, Floats
from ascendfx.quant_passes.formats.magnitude_codes import magnitude_codes
from ascendfx.quant_passes.formats.nearest_value import half_gap

NAN, INFINITY, LARGEST = 0x80, 0x6F, 0x6E
_LARGEST_EXPONENT = 15
_SMALLEST_EXPONENT = -22
_CHUNK = 1 << 16
"""Numbers at a time."""

Source = Literal[DType.F32, DType.F16, DType.BF16]


@dataclass(frozen=True, slots=True)
class HiFloat8:
    """Sign, dot prefix, exponent in sign and magnitude, mantissa.

    ======  ======  ==============  =============  ==============
    dot     prefix  exponents       mantissa bits  positive codes
    ======  ======  ==============  =============  ==============
    DML     0000    -22 to -16      0 (powers)     0x01 to 0x07
    D0      0001    0               3              0x08 to 0x0F
    D1      001     1               3              0x10 to 0x1F
    D2      01      2, 3            3              0x20 to 0x3F
    D3      10      4 to 7          2              0x40 to 0x5F
    D4      11      8 to 15         1              0x60 to 0x7F
    ======  ======  ==============  =============  ==============

    Exponents from D1 on have either sign. One zero (0x00), NaN 0x80, infinities 0x6F and 0xEF,
    largest value 2^15.

    Attributes:
        overflow: ``saturate``: finite numbers beyond the largest become the largest (both casts of
            amct). ``infinity``: from 1.25 * 2^15 on they become infinite (GE, en_dtypes). An
            infinity stays one in either case.
        rounding: ``away``: to the nearest, ties away from zero (TA of section 3.1). ``hybrid``:
            like it below 2^4 and from 2^-3 on, the simplified stochastic rounding of section 3.2
            elsewhere: the bits that are dropped, F, are compared with bits of the number itself, T,
            and F >= T rounds away from zero. For float32, F is the 14 highest bits dropped and T
            the 14 lowest of the mantissa; for float16 and bfloat16 F is two bits and T the lowest
            bit followed by a one. It is a function of the number; no generator is involved.
        source: For ``hybrid``: the format whose bits decide. Numbers are rounded to it before.

    The paper leaves open three cases of ``hybrid``. Here values of the format never move (with
    F = 0 and T = 0 the rule as printed would move them); below 2^-22 ties go away as in ``away``;
    and overflow follows ``overflow`` with the value that would be next as infinity.

    Raises:
        GraphError: `bad-format`: an option that is not one of these.
    """

    overflow: Literal["saturate", "infinity"] = "saturate"
    rounding: Literal["away", "hybrid"] = "away"
    source: Source = DType.F32

    def __post_init__(self) -> None:
        options = (
            ("overflow", self.overflow, ("saturate", "infinity")),
            ("rounding", self.rounding, ("away", "hybrid")),
            ("source", self.source, (DType.F32, DType.F16, DType.BF16)),
        )
        for option, value, known in options:
            if value not in known:
                reason = f"hifloat8: {option} `{value}` is not known"
                names = ", ".join(str(getattr(each, "value", each)) for each in known)
                raise GraphError("bad-format", reason, hint=f"known: {names}")

    @property
    def name(self) -> str:
        """``hifloat8`` with what differs from the defaults."""
        beyond = "" if self.overflow == "saturate" else "-infinity"
        source = "" if self.source is DType.F32 else f"-{self.source.value}"
        return f"hifloat8{beyond}{'' if self.rounding == 'away' else '-hybrid' + source}"

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
        """32768; but values have three bits of mantissa only from 1/8 to below 16."""
        return 2.0**_LARGEST_EXPONENT

    @property
    def conduct(self) -> Conduct:
        """NaN and infinities have codes; ``hybrid`` may take either neighbour."""
        ties = "away" if self.rounding == "away" else "either"
        return Conduct(ties=ties, overflow=self.overflow, infinity="infinity", nan="nan")

    def every_code(self) -> Codes:
        """Return all 256 codes."""
        return np.arange(256).astype(np.uint8)

    def encode(self, values: Floats) -> Codes:
        """Return the code of each number; NaN becomes 0x80, -0 becomes 0x00.

        Raises:
            GraphError: `not-numbers`.
        """
        numbers = as_numbers(values)
        if self.rounding == "away":
            return _lookup(self.overflow).encode(numbers)
        flat = numbers.reshape(-1)
        codes = np.empty(flat.size, np.uint8)
        for begin in range(0, flat.size, _CHUNK):
            part = slice(begin, begin + _CHUNK)
            codes[part] = _encode_hybrid(flat[part], self)
        return codes.reshape(numbers.shape)

    def decode(self, codes: Codes) -> Float64s:
        """Return the value of each code.

        Raises:
            GraphError: `code-out-of-range`.
        """
        return _values()[require_codes(codes, 0, 255, self.name)]

    def error_bound(self, values: Floats) -> Float64s:
        """Return half the gap at each number; for ``hybrid`` all of it, and what `source` adds."""
        numbers = np.abs(as_numbers(values).astype(np.float64))
        magnitudes = _magnitudes()[0]
        half = half_gap(magnitudes, numbers)
        if self.rounding == "away":
            return half
        inside = numbers < self.largest
        # Subnormals of float16 round by an absolute amount, half of 2^-24.
        to_source = numbers * self.source.unit_roundoff + 2.0**-25 * (self.source is DType.F16)
        # Rounding to the source may lead into the next binade, whose gap is at most twice as large.
        rounded = np.abs(_in_source(numbers, self.source)[0].astype(np.float64))
        whole = 2 * np.maximum(half, half_gap(magnitudes, rounded))
        return np.where(inside, whole, half) + to_source


def mantissa_bits(exponent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bits of the mantissa that values of each exponent have."""
    size = np.abs(exponent)
    return np.select([size <= 3, size <= 7, size <= 15], [3, 2, 1], 0)


@cache
def _values() -> Float64s:
    """Return ``[256]`` the value of each code, from the layout of section 2."""
    positive = np.array([_positive_value(code) for code in range(128)])
    values = np.concatenate([positive, -positive])
    values[NAN] = np.nan
    return values


def _positive_value(code: int) -> float:
    if code == 0:
        return 0.0
    if code == INFINITY:
        return np.inf
    if code < 0x08:
        return 2.0 ** (code - 23)
    if code < 0x10:
        return 1 + (code & 7) / 8
    digits = code.bit_length() - 4 if code < 0x40 else 3 + (code >= 0x60)
    width = 3 if code < 0x40 else 5 - digits
    fields = code & ((1 << (digits + width)) - 1)
    exponent, mantissa = fields >> width, fields & ((1 << width) - 1)
    half = 1 << (digits - 1)
    magnitude = half + (exponent & (half - 1))
    signed = -magnitude if exponent & half else magnitude
    return 2.0**signed * (1 + mantissa / 2**width)


@cache
def _magnitudes() -> tuple[Float64s, NDArray[np.uint8]]:
    """Return the finite magnitudes in ascending order, and their codes."""
    positive = _values()[:128]
    finite = np.flatnonzero(np.isfinite(positive))
    order = finite[np.argsort(positive[finite])]
    return positive[order], order.astype(np.uint8)


@cache
def _lookup(overflow: str) -> BitLookup:
    values, codes = _magnitudes()
    if overflow == "infinity":  # the code of infinity stands where 1.5 * 2^15 would
        values, codes = np.append(values, 1.5 * 2.0**15), np.append(codes, INFINITY)
    encoder = magnitude_codes(
        values.tolist(),
        codes=codes.tolist(),
        tie_goes_up=np.ones(len(values) - 1, np.bool_),
        infinity=INFINITY,
        nan=NAN,
        signed_zero=False,
    )
    return bit_lookup(encoder.encode)


def _in_source(
    numbers: NDArray[Any], source: DType
) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """Return the numbers rounded to a format, saturating, and the bits of that format."""
    largest = float(finfo(source.numpy).max)
    with np.errstate(invalid="ignore", under="ignore"):
        finite = np.where(np.isfinite(numbers), np.clip(numbers, -largest, largest), numbers)
        kept = finite.astype(source.numpy)
    bits = kept.view(np.uint32 if source is DType.F32 else np.uint16)
    return kept.astype(np.float32), bits.astype(np.uint32)


def _is_stochastic(source: NDArray[np.float32]) -> NDArray[np.bool_]:
    magnitude = np.abs(source)
    near_one = (magnitude >= 2.0**-3) & (magnitude < 2.0**4)
    return np.isfinite(source) & (magnitude >= 2.0**_SMALLEST_EXPONENT) & ~near_one


def _encode_hybrid(numbers: NDArray[Any], form: HiFloat8) -> NDArray[np.uint8]:
    source, bits = _in_source(numbers, form.source)
    codes = _lookup(form.overflow).encode(source)
    places = np.flatnonzero(_is_stochastic(source))
    codes[places] = _by_own_bits(source[places], bits[places], form)
    return codes


def _by_own_bits(
    source: NDArray[np.float32], bits: NDArray[np.uint32], form: HiFloat8
) -> NDArray[np.uint8]:
    """Round float32 numbers from 2^-22 on away from zero where F >= T and F > 0."""
    raw = source.view(np.uint32)
    exponent = ((raw >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int64) - 127
    width = np.where(exponent > _LARGEST_EXPONENT, 1, mantissa_bits(exponent)).astype(np.uint32)
    dropped = (raw << width) & np.uint32(0x7FFFFF)  # the highest bit dropped is bit 22
    if form.source is DType.F32:
        fraction, threshold = dropped >> np.uint32(9), bits & np.uint32(0x3FFF)
    else:
        fraction, threshold = dropped >> np.uint32(21), ((bits & np.uint32(1)) << 1) | 1
    values, codes = _magnitudes()
    kept = np.searchsorted(values, np.abs(source.astype(np.float64)), side="right") - 1
    place = kept + ((fraction >= threshold) & (fraction > 0))
    beyond = (place >= len(values)) | (np.abs(source) >= 1.5 * 2.0**15)
    found = codes[np.minimum(place, len(values) - 1)]
    if form.overflow == "infinity":
        found = np.where(beyond, np.uint8(INFINITY), found)
    return found | (np.signbit(source).astype(np.uint8) << np.uint8(7))
