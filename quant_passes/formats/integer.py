"""Integers of two to eight bits."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers, refuse_nan, require_codes
from ascendfx.quant_passes.formats.format import Codes, Conduct, Float64s, Floats
from ascendfx.quant_passes.formats.nearest_value import difference_upward


@dataclass(frozen=True, slots=True)
class Integer:
    """Integers of ``bits`` bits: the nearest one, saturating at the ends of the range.

    ================  =======================================
    variant           range
    ================  =======================================
    signed            ``[-2**(bits-1), 2**(bits-1) - 1]``
    signed, narrow    ``[-2**(bits-1) + 1, 2**(bits-1) - 1]``
    unsigned          ``[0, 2**bits - 1]``
    ================  =======================================

    Attributes:
        bits: 2 to 8.
        narrow: Without the lowest code, so that the range is symmetric about zero.
        signed: Whether codes are held as int8 (else as uint8).
        rounding: Where a tie goes: to ``even``, as ``torch.round``, ONNX and ``CAST_RINT`` do, or
            ``away`` from zero, as ``CAST_ROUND`` does.

    Raises:
        GraphError: `bad-format`: no such width, or a narrow unsigned integer.
    """

    bits: int
    narrow: bool = False
    signed: bool = True
    rounding: Literal["even", "away"] = "even"

    def __post_init__(self) -> None:
        if not isinstance(self.bits, int) or self.bits not in range(2, 9):  # pyright: ignore[reportUnnecessaryIsInstance]
            reason = f"an integer of {self.bits!r} bits is not known"
            raise GraphError("bad-format", reason, hint="widths are 2 to 8 bits")
        if self.narrow and not self.signed:
            reason = "an unsigned integer has no lowest negative code to leave out"
            raise GraphError("bad-format", reason, hint="drop narrow or make it signed")
        if self.rounding not in {"even", "away"}:
            reason = f"integers do not round `{self.rounding}`"
            raise GraphError("bad-format", reason, hint="ties go to `even` or `away` from zero")

    @property
    def name(self) -> str:
        """``int4``, ``uint4``, ``int4-narrow``, ``int4-away`` ..."""
        sign = "int" if self.signed else "uint"
        narrow = "-narrow" if self.narrow else ""
        return f"{sign}{self.bits}{narrow}{'-away' if self.rounding == 'away' else ''}"

    @property
    def codes(self) -> np.dtype[Any]:
        """int8 if signed, else uint8."""
        return np.dtype(np.int8 if self.signed else np.uint8)

    @property
    def low(self) -> int:
        """The lowest code."""
        return -(1 << (self.bits - 1)) + self.narrow if self.signed else 0

    @property
    def high(self) -> int:
        """The highest code."""
        return (1 << (self.bits - self.signed)) - 1

    @property
    def largest(self) -> float:
        """The larger one of the magnitudes of both ends."""
        return float(max(-self.low, self.high))

    @property
    def conduct(self) -> Conduct:
        """Saturates, infinities too; what is no number is refused."""
        return Conduct(ties=self.rounding)

    def every_code(self) -> Codes:
        """Return all codes, lowest first."""
        return np.arange(self.low, self.high + 1).astype(self.codes)

    def rounded(self, values: NDArray[Any]) -> Floats:
        """Return the nearest integers, as floats and without the limits of the range."""
        if self.rounding == "even":
            return np.rint(values)
        # floor(|x| + 0.5) would round twice: 0.5 - 2**-54 + 0.5 is 1 in float64.
        magnitude = np.abs(values)
        floor = np.floor(magnitude)
        with np.errstate(invalid="ignore"):  # infinity minus itself
            return np.copysign(floor + (magnitude - floor >= 0.5), values)

    def encode(self, values: Floats) -> Codes:
        """Return the nearest code of each number.

        Raises:
            GraphError: `nan-has-no-code`; `not-numbers`.
        """
        numbers = as_numbers(values)
        refuse_nan(numbers, self.name)
        return np.clip(self.rounded(numbers), self.low, self.high).astype(self.codes)

    def decode(self, codes: Codes) -> Float64s:
        """Return the codes as numbers.

        Raises:
            GraphError: `code-out-of-range`.
        """
        return require_codes(codes, self.low, self.high, self.name).astype(np.float64)

    def error_bound(self, values: Floats) -> Float64s:
        """Return one half inside the range, and never less than the distance to the range."""
        numbers = as_numbers(values).astype(np.float64)
        below = difference_upward(float(self.low), numbers)
        above = difference_upward(numbers, float(self.high))
        return np.maximum(np.maximum(below, above), 0.5)
