"""From sorted values to the exact borders between them, and to how far a number is off."""

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
    """
    total, rest = _sum_and_rest(values[:-1], values[1:])
    middle = total / 2
    middle_is_upper = (rest < 0) | ((rest == 0) & tie_goes_up)
    return np.where(middle_is_upper, middle, np.nextafter(middle, np.inf))


def half_gap(values: Float64s, numbers: Float64s) -> Float64s:
    """Return the distance of each number to its nearest value at most: half the gap it lies in.

    It is the distance itself beyond the outermost values and for numbers that are values.

    Args:
        values: ``[n]``, ascending, at least one.
        numbers: Finite; any shape.
    """
    upper = np.searchsorted(values, numbers, side="left")
    right = np.minimum(upper, len(values) - 1)
    inside = (upper > 0) & (upper < len(values)) & (values[right] != numbers)
    left = np.maximum(upper - 1, 0)
    gap = difference_upward(values[right], values[left]) / 2
    below = difference_upward(values[0], numbers)
    above = difference_upward(numbers, values[-1])
    return np.where(inside, gap, np.maximum(np.maximum(below, above), 0))


def difference_upward(a: Float64s | float, b: Float64s | float) -> Float64s:
    """Return the smallest float64 that is at least ``a - b``."""
    difference, rest = _sum_and_rest(np.asarray(a, np.float64), -np.asarray(b, np.float64))
    return np.where(rest > 0, np.nextafter(difference, np.inf), difference)


def _sum_and_rest(a: Float64s, b: Float64s) -> tuple[Float64s, Float64s]:
    """Return a rounded sum and what rounding took from it, exactly.

    Source: Knuth, The Art of Computer Programming 2, section 4.2.2, theorem B (TwoSum).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)
