"""The small sizes for which an identity is shown for all values."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from ascendfx.ir.size import bind_size
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rule_sides import (
    holes_of,
    letters_of,
    operand_types,
    side_or_none,
)

_SYMBOLS = 20
"""Float elements of all operands together: beyond it, simplification takes seconds."""
_ASSIGNMENTS = 700
"""Values of all integer operands together, for one choice of sizes."""
_CHOICES = 4
"""Choices of sizes, at most."""


def covering_sizes(rule: Rule, spelling: Spelling) -> list[dict[str, Any]]:
    """Return large sizes such that each letter is larger than its minimum in one of them."""
    least = {each: rule.minimum.get(each, 1) for each in letters_of(rule)}
    found: list[dict[str, Any]] = []
    open_letters = set(least)
    for sizes in reversed(ascending_sizes(rule, spelling)):
        new = {letter for letter in open_letters if sizes[letter] > least[letter]}
        if new or not found:
            found.append(sizes)
            open_letters -= new
        if len(found) == _CHOICES or not open_letters:
            break
    return found


def ascending_sizes(rule: Rule, spelling: Spelling) -> list[dict[str, Any]]:
    """Return sizes for the letters, those with few elements first.

    Sizes for which the left side is not well typed, or with more elements than can be treated,
    are left out. Rules of few letters get larger sizes.
    """
    letters = letters_of(rule)
    largest = 4 if len(letters) <= 2 else 3 if len(letters) <= 4 else 2
    least = {each: rule.minimum.get(each, 1) for each in letters}
    ranges = [range(least[each], max(largest, least[each] + 1) + 1) for each in letters]
    choices = [dict(zip(letters, numbers, strict=True)) for numbers in product(*ranges)]
    counted = [(count, each) for each in choices if (count := _elements(rule, spelling, each))]
    counted.sort(key=lambda pair: pair[0])
    return [{**each, "lead": ()} for _, each in counted if _typed(rule, spelling, each)]


def _elements(rule: Rule, spelling: Spelling, sizes: Mapping[str, int]) -> int:
    """Return how many symbols and assignments there are, or 0 if there are too many."""
    holes = holes_of(rule, spelling, {**sizes, "lead": ()})
    symbols, assignments = 0, 1
    for name, kind in operand_types(rule, holes).items():
        elements = int(np.prod([bind_size(d, {}) for d in kind.shape]))
        if kind.dtype.is_float:
            symbols += elements
        else:
            below = holes[rule.below[name]] if name in rule.below else 2
            assignments *= below**elements
    fits = symbols <= _SYMBOLS and assignments <= _ASSIGNMENTS
    return symbols + assignments if fits else 0


def _typed(rule: Rule, spelling: Spelling, sizes: Mapping[str, int]) -> bool:
    holes = holes_of(rule, spelling, {**sizes, "lead": ()})
    return side_or_none(rule, spelling.lhs, holes) is not None
