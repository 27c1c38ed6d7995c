"""Numbers of a rule that stand for irrational ones, which no rule can hold exactly."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import fields
from fractions import Fraction

from ascendfx.ir.graph import Graph

_CLOSE = 2.0**-22
"""Relative distance at which a number looks like another: it may have been rounded to f32."""
_LARGEST = 16
"""Of numerator and denominator of a factor; larger ones come close to any number."""
_BASES = {
    "pi": math.pi,
    "e": math.e,
    "ln 2": math.log(2),
    "ln 10": math.log(10),
    "1/ln 2": 1 / math.log(2),
    "1/ln 10": 1 / math.log(10),
    "1/pi": 1 / math.pi,
    "1/e": 1 / math.e,
}
_SQUARES = {"": 1.0, "pi": math.pi, "1/pi": 1 / math.pi, "e": math.e, "1/e": 1 / math.e}
"""What squares are compared with."""


def irrational_constants(sides: Iterable[Graph]) -> Iterator[str]:
    """Yield a line for each number in the sides of a rule that looks like an irrational one."""
    found: dict[float, str] = {}
    for graph in sides:
        for node in graph.nodes:
            for field in fields(node.op):
                value = getattr(node.op, field.name)
                if isinstance(value, float) and (name := looks_like(value)):
                    found[value] = name
    for value, name in found.items():
        yield (
            f"{value!r} looks like {name}, which is irrational: a rule takes numbers as they are "
            "written, so the identity holds for none that can be written; make it a lossy pass, or "
            "a pass of your own, instead of a rule"
        )


def looks_like(value: float) -> str:
    """Return the name of the irrational number that a value is close to, or nothing."""
    size = abs(value)
    if not math.isfinite(size) or size == 0.0 or float(_simple(size, 10_000)) == size:
        return ""
    sign = "-" if value < 0 else ""
    for name, base in _BASES.items():
        if factor := _factor(size, base):
            return sign + _times(factor, name)
    for name, base in _SQUARES.items():
        if (factor := _factor(size * size, base)) and (name or not _is_square(factor)):
            return f"{sign}sqrt({_times(factor, name) if name else factor})"
    return ""


def _factor(value: float, base: float) -> Fraction | None:
    """Return the small fraction that, times ``base``, is as good as ``value``."""
    fraction = _simple(value / base, _LARGEST)
    if not fraction or fraction.numerator > _LARGEST:
        return None
    return fraction if abs(float(fraction) * base - value) <= _CLOSE * value else None


def _simple(value: float, largest: int) -> Fraction:
    return Fraction(value).limit_denominator(largest)


def _is_square(factor: Fraction) -> bool:
    parts = (factor.numerator, factor.denominator)
    return all(math.isqrt(part) ** 2 == part for part in parts)


def _times(factor: Fraction, name: str) -> str:
    if name.startswith("1/"):
        name, factor = name[2:], 1 / factor
        below = f"{name}" if factor == 1 else f"({_times(factor, name)})"
        return f"1/{below}"
    above = name if factor.numerator == 1 else f"{factor.numerator} {name}"
    return above if factor.denominator == 1 else f"{above} / {factor.denominator}"
