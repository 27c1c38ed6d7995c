"""Find the first number of an array that is out of range, infinite or NaN."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_CHUNK = 1 << 20
"""Elements looked at together: small beside a weight, large beside the cost of a call."""


def first_not_finite(array: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the place of the first infinity or NaN in row-major order; None if all are finite."""
    if array.dtype.kind in "biu":
        return None
    return first_beyond(array, float(ml_dtypes.finfo(array.dtype).max))


def first_beyond(array: NDArray[Any], limit: float) -> tuple[int, ...] | None:
    """Return the first place with ``|x| > limit`` or NaN; None if there is none.

    Bits without the sign order the numbers of every binary format, infinity and NaN last, so one
    comparison of integers finds all three (IEEE 754-2019, section 3.4). The array is read in
    pieces: a mapped file is streamed and nothing large is made.

    Args:
        array: Of a float format.
        limit: At least 0.
    """
    kind = _UNSIGNED[array.dtype.itemsize]
    magnitude = kind(2 ** (8 * array.dtype.itemsize - 1) - 1)
    largest = np.array(limit, array.dtype).view(kind)
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        beyond = (flat[start : start + _CHUNK].view(kind) & magnitude) > largest
        if beyond.any():
            place = start + int(beyond.argmax())
            return tuple(int(each) for each in np.unravel_index(place, array.shape))
    return None
