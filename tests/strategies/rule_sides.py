"""Both sides of a rule as graphs, and operands to evaluate them on."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input
from ascendfx.ir.size import bind_size, names_in
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.match import concrete_holes
from ascendfx.passes.rule import OperandForm, Rule, Side, Spelling, as_tuple, parse_operand

ELEMENTS = st.sampled_from([0.0, 1.0]) | st.floats(-4, 4, allow_subnormal=False)


def forms_of(rule: Rule) -> dict[str, OperandForm]:
    return {name: parse_operand(text) for name, text in rule.operands.items()}


def letters_of(rule: Rule) -> list[str]:
    """Return the axis letters of a rule."""
    return sorted({n for f in forms_of(rule).values() for axis in f.axes for n in names_in(axis)})


def has_rest(rule: Rule) -> bool:
    return any(form.rest for form in forms_of(rule).values())


def concrete(rule: Rule, spelling: Spelling, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return every hole of a rule for given sizes (``lead`` is the tuple for ``*``)."""
    holes = {**sizes, **rule.holes(sizes), **spelling.fixed}
    for i, (name, form) in enumerate(forms_of(rule).items()):
        rank = len(form.axes) + (len(sizes["lead"]) if form.rest else 0)
        holes["last" if i == 0 else f"last_{name}"] = rank - 1
    return holes


def operand_types(rule: Rule, holes: Mapping[str, Any]) -> dict[str, TensorType]:
    """Return the types of the operands."""
    types: dict[str, TensorType] = {}
    for name, form in forms_of(rule).items():
        numbers = {k: v for k, v in holes.items() if isinstance(v, int)}
        shape = tuple(bind_size(axis, numbers) for axis in form.axes)
        dtype = form.format if isinstance(form.format, DType) else holes.get(form.format or "")
        lead = tuple(holes["lead"]) if form.rest else ()
        types[name] = TensorType(dtype or DType.F32, lead + shape)
    return types


def side(rule: Rule, which: Side, holes: Mapping[str, Any]) -> Graph:
    """Return one side as a graph of its own."""
    builder = GraphBuilder(rule.name)
    inputs = [builder.add(Input(n, kind)) for n, kind in operand_types(rule, holes).items()]
    results = as_tuple(which(builder, concrete_holes(**holes), *inputs))
    return builder.build(*results)


@st.composite
def sizes_of(draw: st.DrawFn, rule: Rule) -> dict[str, Any]:
    """Draw a size for each axis letter, and leading axes."""
    sizes: dict[str, Any] = {
        letter: draw(st.integers(rule.minimum.get(letter, 1), 5), label=letter)
        for letter in letters_of(rule)
    }
    sizes["lead"] = tuple(draw(st.lists(st.integers(1, 3), max_size=2), label="lead"))
    return sizes


def side_or_none(rule: Rule, which: Side, holes: Mapping[str, Any]) -> Graph | None:
    """Return one side, or None where the sizes make no sense: 3 heads for 2 key heads."""
    try:
        return side(rule, which, holes)
    except GraphError:
        return None


def unequal_sizes(rule: Rule, spelling: Spelling, lead: tuple[int, ...]) -> dict[str, Any]:
    """Return sizes that differ as far as the rule allows: the fewest letters are one."""
    letters = letters_of(rule)
    sizes = {each: rule.minimum.get(each, 1) + i for i, each in enumerate(letters, start=1)}
    for count in range(len(letters) + 1):
        for ones in combinations(letters, count):
            chosen = {**sizes, **dict.fromkeys(ones, 1), "lead": lead}
            if side_or_none(rule, spelling.lhs, concrete(rule, spelling, chosen)):
                return chosen
    raise AssertionError(f"{rule.name}: no sizes fit")


@st.composite
def operands_of(draw: st.DrawFn, rule: Rule, holes: Mapping[str, Any]) -> dict[str, Array]:
    """Draw an array for each operand."""
    arrays: dict[str, Array] = {}
    for name, kind in operand_types(rule, holes).items():
        shape = tuple(d for d in kind.shape if isinstance(d, int))
        if kind.dtype.is_float:
            arrays[name] = draw(hnp.arrays(np.float64, shape, elements=ELEMENTS), label=name)
        else:
            high = holes[rule.below[name]] - 1
            elements = st.integers(0, high)
            arrays[name] = draw(hnp.arrays(np.int64, shape, elements=elements), label=name)
    return arrays
