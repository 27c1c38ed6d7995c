"""Sizes and operands of a rule, drawn by hypothesis."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ascendfx.ir.op import Array
from ascendfx.passes.rule import Rule, Values
from ascendfx.passes.rule_sides import letters_of, operand_types, within

_LEAST = 1e-30  # products of several of them do not underflow, which rounding bounds leave out
ELEMENTS = st.sampled_from([0.0, 1.0]) | st.floats(_LEAST, 4) | st.floats(-4, -_LEAST)


@st.composite
def sizes_of(draw: st.DrawFn, rule: Rule) -> dict[str, Any]:
    """Draw a size for each axis letter, and leading axes."""
    sizes: dict[str, Any] = {
        letter: draw(st.integers(rule.minimum.get(letter, 1), 5), label=letter)
        for letter in letters_of(rule)
    }
    sizes["lead"] = tuple(draw(st.lists(st.integers(1, 3), max_size=2), label="lead"))
    return sizes


@st.composite
def operands_of(draw: st.DrawFn, rule: Rule, holes: Mapping[str, Any]) -> dict[str, Array]:
    """Draw an array for each operand."""
    arrays: dict[str, Array] = {}
    for name, kind in operand_types(rule, holes).items():
        shape = tuple(d for d in kind.shape if isinstance(d, int))
        if kind.dtype.is_float:
            drawn = draw(hnp.arrays(np.float64, shape, elements=ELEMENTS), label=name)
            arrays[name] = within(rule.values.get(name, Values()), drawn)
        else:
            elements = st.integers(0, holes[rule.below[name]] - 1)
            arrays[name] = draw(hnp.arrays(np.int64, shape, elements=elements), label=name)
    return arrays
