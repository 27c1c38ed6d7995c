"""The nearest value by comparing all of them, in fractions: slow, and hard to get wrong."""

from collections.abc import Iterable
from fractions import Fraction


def nearest_values(number: float, values: Iterable[float]) -> set[float]:
    """Return the nearest values, two of them for a tie; zeros of both signs are one."""
    exact = Fraction(number)
    distance = {value: abs(Fraction(value) - exact) for value in {v + 0.0 for v in values}}
    least = min(distance.values())
    return {value for value, each in distance.items() if each == least}
