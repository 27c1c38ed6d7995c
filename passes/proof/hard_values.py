"""Where identities of real numbers fail in a computer: infinities, integers, ties, long axes.

The proofs take float operands as real numbers, integers below what the rule says, and axes of a few
elements. What that leaves out is tried here: infinities where a mask puts them, integers of any
size, values that are equal or nearly equal or that saturate a function, axes of many elements.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Divide,
    Equal,
    Greater,
    GreaterEqual,
    Input,
    Less,
    LessEqual,
    LogicalNot,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    Relu,
    Select,
    Softmax,
    Subtract,
)
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.proof.check_sides import format_variants, rounded_differently, unequal
from ascendfx.passes.proof.round_in_format import evaluate_rounded, round_to
from ascendfx.passes.proof.shown import (
    shown_difference,
    shown_formats,
    shown_operands,
    shown_sizes,
)
from ascendfx.passes.rounding_rules import MOVES
from ascendfx.passes.rule import Rule, Spelling, Values
from ascendfx.passes.rule_sides import (
    forms_of,
    holes_of,
    letters_of,
    operand_types,
    random_operands,
    random_sizes,
    side_or_none,
    within,
)

_MASKED = (Add, Maximum, Minimum, Relu, Select, Softmax, Subtract, *MOVES)
"""Operations of the left side through which infinities pass as values like any other."""
_ELEMENTWISE = (
    *(Add, Constant, Divide, Equal, Greater, GreaterEqual, Input, Less, LessEqual, LogicalNot),
    *(Maximum, Minimum, Multiply, Negate, Relu, Select, Subtract, Cast),
)
"""Operations for which an integer of any size is a value and no index."""
_LARGE_INTEGERS = (2**24 + 1, -(2**24) - 1, 2**31, -(2**31) - 1, 2**53 + 1)
_LARGE_SIZES = ((17, 33, 259), (16, 32, 256))
_ELEMENTS = 200_000
"""Of all results of one side together, beyond which a large size is left out."""
_ROUNDED_ELEMENTS = 6_000
"""As above, for the evaluation number by number in the formats."""


def check_infinities(rule: Rule, spelling: Spelling, *, trials: int, seed: int) -> str:
    """Compare the sides where an operand that is added or chosen is infinite, as masks are.

    Ranges that a rule declares exclude infinity. Where the left side is no number, the right side
    may be anything.
    """
    random = np.random.default_rng(seed)
    for holes, lhs, rhs in _sides(rule, spelling, random, trials):
        for name in _masks(lhs):
            if name in rule.values:
                continue
            tensors = random_operands(rule, holes, random)
            shape = tensors[name].shape
            infinite = random.choice(_infinities(lhs), shape)
            tensors[name] = np.where(random.random(shape) < 0.4, infinite, tensors[name])
            with np.errstate(all="ignore"):
                results = [interpret(each, tensors) for each in (lhs, rhs)]
            for a, c in zip(*results, strict=True):
                if a.dtype.kind == "f" and np.any(~np.isnan(a) & (_kinds(a) != _kinds(c))):
                    return f"with {shown_operands(tensors)} {shown_difference(a, c)}"
    return ""


def _infinities(graph: Graph) -> tuple[float, ...]:
    """Return what masks hold: below zero for a softmax, whose sum is no number for the other."""
    has_softmax = any(isinstance(node.op, Softmax) for node in graph.nodes)
    return (-np.inf,) if has_softmax else (-np.inf, np.inf)


def _kinds(array: Array) -> Array:
    """Return what a number is: finite, one of the infinities, or none."""
    return np.where(np.isnan(array), 2, np.where(np.isinf(array), np.sign(array), 0))


def _masks(graph: Graph) -> Iterator[str]:
    """Yield the float operands that only operations of `_MASKED` read."""
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Input) and node.op.type.dtype.is_float:
            readers = [n.op for n in graph.nodes if position in [v.node for v in n.operands]]
            if readers and all(isinstance(each, _MASKED) for each in readers):
                yield node.op.name


def _sides(
    rule: Rule, spelling: Spelling, random: np.random.Generator, trials: int
) -> Iterator[tuple[Mapping[str, Any], Graph, Graph]]:
    for _ in range(trials):
        holes = holes_of(rule, spelling, random_sizes(rule, random, largest=4))
        lhs = side_or_none(rule, spelling.lhs, holes)
        rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
        if lhs is not None and rhs is not None:
            yield holes, lhs, rhs


def check_integers(rule: Rule, spelling: Spelling, *, trials: int, seed: int) -> str:
    """Try integers beyond those of the proof: below zero, around every constant, very large ones.

    Where the left side takes an operand as an index, it computes nothing for others than the proof
    tries, and there is nothing to compare. A range that only the rule promises is found out.
    """
    random = np.random.default_rng(seed)
    for holes, lhs, rhs in _sides(rule, spelling, random, trials):
        kinds = operand_types(rule, holes)
        names = [n for n, t in kinds.items() if not t.dtype.is_float and t.dtype is not DType.BOOL]
        if not names:
            return ""
        for name in names:
            if name not in rule.below:
                return (
                    f"the integers of `{name}` have no end: not all can be tried; say in `below` "
                    "what they stay below, where an operation of the left side makes sure of it"
                )
        for name in names:
            if name in rule.below_by:
                continue  # by a precondition
            tensors = random_operands(rule, holes, random)
            end = 2 ** (8 * kinds[name].dtype.numpy.itemsize - 1)
            near = _integers_near(holes[rule.below[name]], lhs, rhs)
            candidates = np.array([each for each in near if -end <= each < end], np.int64)
            drawn = random.choice(candidates, tensors[name].shape)
            keep = random.random(tensors[name].shape) < 0.5
            tensors[name] = np.where(keep, tensors[name], drawn)
            if found := _unequal_where_defined(lhs, rhs, tensors):
                return f"with {shown_operands(tensors)} {found}"
    return ""


def _integers_near(below: int, lhs: Graph, rhs: Graph) -> list[int]:
    nodes = [*lhs.nodes, *rhs.nodes]
    constants = {
        int(node.op.value)
        for node in nodes
        if isinstance(node.op, Constant) and float(node.op.value).is_integer()
    }
    near = {each + step for each in (0, below, *constants) for step in (-1, 0, 1)}
    if all(isinstance(node.op, _ELEMENTWISE) for node in nodes):
        near |= {*_LARGE_INTEGERS, -1000, -7, 1000}
        return sorted(near)
    return sorted(each for each in near if abs(each) <= 4096)


def _unequal_where_defined(lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    with np.errstate(all="ignore"):
        try:
            before = evaluate_rounded(lhs, tensors)
        except (IndexError, ValueError):
            return ""  # an index is out of range
        try:
            after = evaluate_rounded(rhs, tensors)
        except (IndexError, ValueError) as error:
            return f"the left side is defined, the right side is not: {error}"
    for a, c in zip(before, after, strict=True):
        if a.shape != c.shape or (a.dtype.kind != "f" and not np.array_equal(a, c)):
            return shown_difference(a, c)
    try:
        return unequal(lhs, rhs, tensors)
    except (IndexError, ValueError):
        return ""  # the bound of the rounding is about what is in range


def check_decisions(rule: Rule, spelling: Spelling, *, trials: int, seed: int) -> str:
    """Compare integers and truth values of both sides in the formats, where a choice is close.

    A decision is no rounding error: an argmax that moves is another token. Ties, neighbours in the
    format and values that saturate a function are tried.
    """
    random = np.random.default_rng(seed)
    for formats in format_variants(rule, spelling):
        for trial in range(2 * trials):
            holes = holes_of(rule, spelling, random_sizes(rule, random, largest=4))
            holes = {**holes, **formats}
            lhs = side_or_none(rule, spelling.lhs, holes)
            rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
            if lhs is None or rhs is None:
                continue
            if all(each.dtype.is_float for each in lhs.output_types):
                return ""
            tensors = _close_operands(rule, holes, random, trial)
            sides = (evaluate_rounded(each, tensors) for each in (lhs, rhs))
            for a, c in zip(*sides, strict=True):
                if a.dtype.kind != "f" and not np.array_equal(a, c):
                    kinds = {name: t.dtype for name, t in operand_types(rule, holes).items()}
                    return (
                        "a decision changes, which no rounding excuses: with "
                        f"{shown_operands(tensors)}{shown_formats(kinds)} {shown_difference(a, c)}"
                    )
    return ""


def _close_operands(
    rule: Rule, holes: Mapping[str, Any], random: np.random.Generator, trial: int
) -> dict[str, Array]:
    tensors = random_operands(rule, holes, random, whole=trial % 4 == 0)
    for name, kind in operand_types(rule, holes).items():
        if not kind.dtype.is_float:
            continue
        shape, unit = tensors[name].shape, kind.dtype.unit_roundoff
        match trial % 4:
            case 0:
                drawn = tensors[name]
            case 1:  # neighbours
                steps = random.integers(-4, 5, shape)
                drawn = 2.0 ** random.integers(-2, 7) * (1 + 2 * unit * steps)
            case 2:  # saturating
                drawn = random.uniform(16, 128, shape) * random.choice((-1, 1))
            case _:  # each operand of its own size
                drawn = 2.0 ** random.integers(-12, 8) * (1 + random.uniform(0, 1e-3, shape))
        drawn = within(rule.values.get(name, Values()), np.asarray(drawn))
        tensors[name] = round_to(drawn, kind.dtype)
    return tensors


def check_large_sizes(rule: Rule, spelling: Spelling, *, seed: int) -> str:
    """Compare the sides as numbers with one long axis, for each letter in turn."""
    random = np.random.default_rng(seed)
    for letter in letters_of(rule):
        for place in range(3):
            for sizes in _with_long_axis(rule, letter, place):
                holes = holes_of(rule, spelling, sizes)
                lhs = side_or_none(rule, spelling.lhs, holes)
                rhs = side_or_none(rule, rule.rhs, holes) if lhs else None
                if lhs is None or rhs is None or _elements(lhs) + _elements(rhs) > _ELEMENTS:
                    continue
                shown = shown_sizes(sizes, forms_of(rule))
                if lhs.output_types != rhs.output_types:
                    types = [", ".join(map(str, each.output_types)) for each in (lhs, rhs)]
                    return f"for {shown} the left side is {types[0]}, the right side {types[1]}"
                tensors = random_operands(rule, holes, random)
                found = unequal(lhs, rhs, tensors)
                if not found and _elements(lhs) + _elements(rhs) <= _ROUNDED_ELEMENTS:
                    for name, kind in operand_types(rule, holes).items():
                        tensors[name] = round_to(tensors[name], kind.dtype)
                    found = rounded_differently(rule, lhs, rhs, tensors)
                if found:
                    return f"the sides differ for {shown}: with {shown_operands(tensors)} {found}"
                break
    return ""


def _with_long_axis(rule: Rule, letter: str, place: int) -> Iterator[dict[str, Any]]:
    least = {each: rule.minimum.get(each, 1) for each in letters_of(rule)}
    for sizes in _LARGE_SIZES:
        for other in (1, 2):
            others = {each: max(low, other) for each, low in least.items()}
            yield {**others, letter: max(least[letter], sizes[place]), "lead": ()}


def _elements(graph: Graph) -> int:
    shapes = (each.shape for node in graph.nodes for each in node.types)
    return sum(int(np.prod([bind_size(d, {}) for d in shape])) for shape in shapes)
