"""Formats of a sign bit and a magnitude: the nearest magnitude, then the sign."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.formats.format import Bools, Float64s
from ascendfx.quant_passes.formats.nearest_value import first_of_upper


@dataclass(frozen=True, slots=True, eq=False)
class MagnitudeCodes:
    """Encodes float64 numbers by the borders of their magnitudes.

    Attributes:
        codes: ``[n]``, the codes of the magnitudes, ascending in magnitude; the first is zero. The
            last may be that of infinity or NaN, for what is beyond the largest value.
        borders: ``[n - 1]``, the smallest float64 magnitude with a code further right.
        infinity: The code of positive infinity.
        nan: The code of a positive NaN.
        signed_zero: Whether numbers that become zero keep their sign.
    """

    codes: NDArray[np.uint8]
    borders: Float64s
    infinity: int
    nan: int
    signed_zero: bool

    def encode(self, values: Float64s) -> NDArray[np.uint8]:
        """Return the codes of any float64 numbers."""
        magnitude = np.abs(values)
        found = self.codes[np.searchsorted(self.borders, magnitude, side="right")]
        found = np.where(np.isinf(values), np.uint8(self.infinity), found)
        found = np.where(np.isnan(values), np.uint8(self.nan), found)
        keeps_sign = np.signbit(values)
        if not self.signed_zero:
            keeps_sign &= found != 0
        return found | (keeps_sign.astype(np.uint8) << np.uint8(7))


def magnitude_codes(
    values: Sequence[float],
    *,
    tie_goes_up: Bools,
    infinity: int,
    nan: int,
    signed_zero: bool,
    codes: Sequence[int] | None = None,
) -> MagnitudeCodes:
    """Return the encoder of a format whose magnitudes are ``values``, ascending from zero.

    Args:
        values: The magnitudes; behind the largest one may stand the value that would be next, from
            whose middle on numbers overflow.
        tie_goes_up: ``[len(values) - 1]``.
        infinity: The code of infinity.
        nan: The code of NaN.
        signed_zero: Whether what becomes zero keeps its sign.
        codes: The code of each magnitude; counted up from zero if left out.
    """
    numbers = np.array(values, np.float64)
    counted = np.arange(len(values)) if codes is None else np.array(codes)
    borders = first_of_upper(numbers, tie_goes_up)
    return MagnitudeCodes(counted.astype(np.uint8), borders, infinity, nan, signed_zero)
