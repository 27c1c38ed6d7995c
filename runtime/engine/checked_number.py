"""Real numbers that callers pass for the choice of tokens."""

import math
from numbers import Real

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.arguments import wrong_type


def check_within(name: str, given: object, low: float, high: float, *, hint: str) -> float:
    """Return a number from ``low`` to ``high``.

    Args:
        name: Of the argument.
        given: The number.
        low: Least.
        high: Largest; infinity: any that a float32 holds.
        hint: What the caller may do.

    Raises:
        GraphError: It is no number, outside, or so small that the device would take it for 0.
    """
    value = checked_number(name, given)
    if not held(low) <= value <= held(high):  # a bound as a float32 is within
        bound = (
            f"between {low:g} and {high:g}" if high < LARGEST else f"at least {low:g} and finite"
        )
        raise GraphError("bad-sampling", f"{name} must be {bound}, got {value}", hint=hint)
    if value and not held(value):
        raise GraphError("bad-sampling", f"{name} is {value}, which is 0 in float32", hint=hint)
    return value


LARGEST = float(np.finfo(np.float32).max)
"""The device works in f32, where a number of Python may be 0 or infinite."""


def checked_number(name: str, given: object) -> float:
    """Return a real number; NaN is one.

    Raises:
        GraphError: It is something else.
    """
    if isinstance(given, bool) or not isinstance(given, Real | np.floating):
        raise wrong_type(name, given, "a number")
    try:
        return float(given)
    except OverflowError:
        return math.inf  # beyond every bound, whatever its sign


def held(value: float) -> float:
    """Return the float32 next to a number."""
    return math.nan if math.isnan(value) else float(np.float32(min(max(value, -LARGEST), LARGEST)))
