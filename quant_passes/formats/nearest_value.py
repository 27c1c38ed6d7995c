"""From sorted values to the exact borders between them."""

import numpy as np

from ascendfx.quant_passes.formats.format import Bools, Float64s


def first_of_upper(values: Float64s, tie_goes_up: Bools) -> Float64s:
    """Return the smallest float64 that belongs to the upper one of each pair of neighbours.

    The code of ``x`` is then the number of borders that are at most ``x``: one search, no rounding.

    Args:
        values: ``[n]``, ascending.
        tie_goes_up: ``[n - 1]``; whether the middle of a pair belongs to its upper value.

    Returns:
        ``[n - 1]`` borders. The middle of two float64 need not be a float64; the rest of its sum
        tells on which side of the rounded middle the true one is.
        Source: Knuth, The Art of Computer Programming 2, section 4.2.2, theorem B (TwoSum).
    """
    a, b = values[:-1], values[1:]
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    middle = total / 2
    middle_is_upper = (rest < 0) | ((rest == 0) & tie_goes_up)
    return np.where(middle_is_upper, middle, np.nextafter(middle, np.inf))


def half_gap(values: Float64s, numbers: Float64s) -> Float64s:
    """Return the distance of each number to its nearest value at most: half the gap it lies in.

    Beyond the outermost values it is the distance to them, exactly.

    Args:
        values: ``[n]``, ascending, at least one.
        numbers: Finite; any shape.
    """
    upper = np.searchsorted(values, numbers, side="left")
    inside = (upper > 0) & (upper < len(values))
    right = np.minimum(upper, len(values) - 1)
    left = np.maximum(upper - 1, 0)
    outside = np.minimum(np.abs(numbers - values[0]), np.abs(numbers - values[-1]))
    return np.where(inside, (values[right] - values[left]) / 2, outside)
