"""What is checked of a rule before any of its code runs: names, axes, ranges, numbers."""

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

from ascendfx.passes.proof.check_fields import check_fields
from ascendfx.passes.rule import Rule
from ascendfx.passes.rule_sides import letters_of

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LARGEST_MINIMUM = 32
"""Sizes beyond it are too large for the proof, which takes small ones."""


def check_declaration(rule: Rule) -> Iterator[str]:
    """Yield what is wrong with a rule as it is declared."""
    wrong = tuple(check_fields(rule))
    yield from wrong or _contents(rule)


def _contents(rule: Rule) -> Iterator[str]:
    if not _NAME.fullmatch(rule.name):
        yield f"its name `{rule.name}` is not kebab-case"
    if not rule.spellings:
        yield "it has no left side"
    if not rule.operands:
        yield "it has no operands"
    try:
        letters = letters_of(rule)
    except ValueError as error:
        yield f"the axes of an operand cannot be read: {error}"
        return
    for letter, least in rule.minimum.items():
        if letter not in letters:
            yield f"it has a minimum of `{letter}`, which is no axis of an operand"
        elif not 1 <= least <= _LARGEST_MINIMUM:
            yield f"the minimum of `{letter}` is {least}, not one from 1 to {_LARGEST_MINIMUM}"
    for name in rule.below:
        if name not in rule.operands:
            yield f"it says what `{name}` stays below, which is no operand"
    yield from _numbers(rule)
    yield from _sides(rule)


def _sides(rule: Rule) -> Iterator[str]:
    for i, spelling in enumerate(rule.spellings):
        which = f"left side {i}" if len(rule.spellings) > 1 else "left side"
        yield from _parameters(rule, which, spelling.lhs)
    yield from _parameters(rule, "right side", rule.rhs)


def _parameters(rule: Rule, which: str, side: Any) -> Iterator[str]:
    """Say if a side cannot be called with a builder, the holes and every operand."""
    wanted = ", ".join(("builder", "holes", *rule.operands))
    try:
        parameters = inspect.signature(side)
    except TypeError:
        yield f"its {which} is {type(side).__name__}, not a function of ({wanted})"
        return
    try:
        parameters.bind(None, None, *rule.operands)
    except TypeError:
        yield f"its {which} takes {parameters}, but is called with ({wanted})"


def _numbers(rule: Rule) -> Iterator[str]:
    for name, values in rule.values.items():
        if not _is_number(values.low) or not _is_number(values.high) or values.low > values.high:
            yield f"the values of `{name}` from {values.low} to {values.high} are no range"
    if rule.growth is not None and not rule.growth.factor > 0:
        yield f"its growth of rounding errors is {rule.growth.factor}, not a positive number"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
