"""Both sides of a rule as graphs of their own, and tensors to evaluate them on."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input
from ascendfx.ir.size import bind_size, names_in
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.pattern import concrete_holes
from ascendfx.passes.rotation_parameter import random_rotation
from ascendfx.passes.rule import (
    OperandForm,
    Rule,
    Side,
    Spelling,
    Values,
    as_tuple,
    parse_operand,
)

FREE = "format of operands without one"
"""Key of the holes; not a name that a side could read."""
LEADS = "leading axes by operand"
"""Key of the holes: other sizes than ``lead`` for the ``*`` of some operands."""


def forms_of(rule: Rule) -> dict[str, OperandForm]:
    """Return the parsed declaration of each operand."""
    return {name: parse_operand(text) for name, text in rule.operands.items()}


def letters_of(rule: Rule) -> list[str]:
    """Return the axis letters of a rule."""
    return sorted({n for f in forms_of(rule).values() for axis in f.axes for n in names_in(axis)})


def holes_of(rule: Rule, spelling: Spelling, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return every hole for given sizes of the letters; ``lead`` is the tuple for ``*``."""
    holes = {**sizes, **rule.holes(sizes), **spelling.fixed}
    for i, (name, form) in enumerate(forms_of(rule).items()):
        rank = len(form.axes) + (len(holes["lead"]) if form.rest else 0)
        holes["last" if i == 0 else f"last_{name}"] = rank - 1
    return holes


def operand_types(rule: Rule, holes: Mapping[str, Any]) -> dict[str, TensorType]:
    """Return the types of the operands.

    A format that the rule leaves open is f32, or what ``holes`` has under `FREE`.
    """
    types: dict[str, TensorType] = {}
    for name, form in forms_of(rule).items():
        numbers = {key: value for key, value in holes.items() if isinstance(value, int)}
        shape = tuple(bind_size(axis, numbers) for axis in form.axes)
        dtype = form.format if isinstance(form.format, DType) else holes.get(form.format or "")
        lead = tuple(holes.get(LEADS, {}).get(name, holes["lead"])) if form.rest else ()
        types[name] = TensorType(dtype or holes.get(FREE, DType.F32), lead + shape)
    return types


def side_of(rule: Rule, side: Side, holes: Mapping[str, Any]) -> Graph:
    """Return one side as a graph of its own.

    Raises:
        GraphError: The side is not well typed for these sizes.
    """
    builder = GraphBuilder(rule.name)
    inputs = [builder.add(Input(n, kind)) for n, kind in operand_types(rule, holes).items()]
    results = as_tuple(side(builder, concrete_holes(**holes), *inputs))
    return builder.build(*results)


def side_or_none(rule: Rule, side: Side, holes: Mapping[str, Any]) -> Graph | None:
    """Return one side, or None where the sizes make no sense: 3 heads for 2 key heads."""
    try:
        return side_of(rule, side, holes)
    except GraphError:
        return None


def unequal_sizes(rule: Rule, spelling: Spelling, lead: tuple[int, ...]) -> dict[str, Any]:
    """Return sizes that differ as far as the rule allows: the fewest letters are one.

    Raises:
        GraphError: The left side is not well typed for any of them.
    """
    letters = letters_of(rule)
    sizes = {each: rule.minimum.get(each, 1) + i for i, each in enumerate(letters, start=1)}
    for count in range(len(letters) + 1):
        for ones in combinations(letters, count):
            chosen = {**sizes, **dict.fromkeys(ones, 1), "lead": lead}
            if side_or_none(rule, spelling.lhs, holes_of(rule, spelling, chosen)):
                return chosen
    raise GraphError(
        "rule-not-typed",
        f"{rule.name}: the left side fits no sizes of {letters}",
        hint="correct the axes of the operands",
    )


def random_sizes(rule: Rule, random: np.random.Generator, *, largest: int = 5) -> dict[str, Any]:
    """Return a size of at most ``largest`` for each letter, and at most two leading axes."""
    least = {each: rule.minimum.get(each, 1) for each in letters_of(rule)}
    sizes: dict[str, Any] = {
        letter: int(random.integers(low, max(low, largest) + 1)) for letter, low in least.items()
    }
    sizes["lead"] = tuple(int(n) for n in random.integers(1, 4, random.integers(0, 3)))
    return sizes


def random_operands(
    rule: Rule, holes: Mapping[str, Any], random: np.random.Generator, *, whole: bool = False
) -> dict[str, Array]:
    """Return floats in the range of each operand, and integers below what the rule says.

    Floats are normal numbers, or with ``whole`` whole numbers of at most three: examples of few
    digits, with many equal elements.
    """
    tensors: dict[str, Array] = {}
    for name, kind in operand_types(rule, holes).items():
        shape = [bind_size(d, {}) for d in kind.shape]
        if name in rule.orthogonal:
            tensors[name] = random_rotation(random, shape[0], whole=whole)
        elif kind.dtype.is_float:
            normal = random.standard_normal(shape)
            drawn = np.asarray(np.rint(2 * normal).clip(-3, 3) if whole else normal)
            tensors[name] = within(rule.values.get(name, Values()), drawn)
        elif name in rule.below:
            tensors[name] = random.integers(0, holes[rule.below[name]], shape)
        elif kind.dtype is DType.BOOL:
            tensors[name] = random.integers(0, 2, shape).astype(bool)
        else:
            tensors[name] = random.integers(-3, 4, shape)
    return tensors


def within(values: Values, drawn: Array) -> Array:
    """Return what was drawn, moved into a range; signs go where the range excludes one."""
    signed = np.abs(drawn) if values.low >= 0 else drawn
    return np.clip(signed, values.low, values.high)
