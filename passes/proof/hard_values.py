"""Where identities of real numbers fail in a computer: infinities, integers, long axes.

The proofs take float operands as real numbers, integers below what the rule says, and axes of a few
elements. What that leaves out is tried here: infinities where a mask puts them, integers of any
size, axes of many elements.
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
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.proof.check_sides import rounded_differently, unequal
from ascendfx.passes.proof.meeting_values import meeting_integers
from ascendfx.passes.proof.round_in_format import evaluate_rounded, round_to
from ascendfx.passes.proof.shown import (
    shown_difference,
    shown_operands,
    shown_sizes,
)
from ascendfx.passes.rounding_rules import MOVES
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rule_sides import (
    forms_of,
    holes_of,
    letters_of,
    operand_types,
    random_operands,
    random_sizes,
    side_or_none,
    unequal_sizes,
)
from ascendfx.passes.same_bits import same_bits

_COMPARISONS = (Equal, Greater, GreaterEqual, Less, LessEqual)
_MASKED = (Add, Maximum, Minimum, Relu, Select, Softmax, Subtract, *_COMPARISONS, *MOVES)
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
        names = [each for each in _masks(lhs) if each not in rule.values]
        groups = [[each] for each in names] + ([names] if len(names) > 1 else [])
        for group in groups:
            tensors = random_operands(rule, holes, random)
            for name in group:
                shape = tensors[name].shape
                infinite = random.choice(_infinities(lhs), shape)
                share = 0.4 if len(group) == 1 else 0.7
                chosen = random.random(shape) < share
                tensors[name] = np.where(chosen, infinite, tensors[name])
            if found := _other_kind(lhs, rhs, tensors):
                return f"with {shown_operands(tensors)} {found}"
    return ""


def _other_kind(lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    """Return where what is a number or infinite on the left is something else on the right.

    Decisions are compared if nothing on the left is no number: else one may have been decided.
    """
    undefined: list[bool] = []

    def look(where: Graph, position: int, results: tuple[Array, ...]) -> None:
        undefined.extend(bool(np.any(np.isnan(r))) for r in results if r.dtype.kind == "f")

    with np.errstate(all="ignore"):
        left, right = interpret(lhs, tensors, observe=look), interpret(rhs, tensors)
    for a, c in zip(left, right, strict=True):
        if a.dtype.kind == "f":
            differs = bool(np.any(~np.isnan(a) & (_kinds(a) != _kinds(c))))
        else:
            differs = not any(undefined) and not np.array_equal(a, c)
        if differs:
            return shown_difference(a, c)
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
            if found := _unequal_where_defined(rule, lhs, rhs, tensors):
                return f"with {shown_operands(tensors)} {found}"
    return _integers_that_meet(rule, spelling, random)


def _integers_that_meet(rule: Rule, spelling: Spelling, random: np.random.Generator) -> str:
    """Try integers of all operands together where no side takes one as an index."""
    holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, ()))
    lhs, rhs = (side_or_none(rule, each, holes) for each in (spelling.lhs, rule.rhs))
    if lhs is None or rhs is None or not _is_elementwise(lhs, rhs):
        return ""
    types = {
        name: kind
        for name, kind in operand_types(rule, holes).items()
        if not (kind.dtype.is_float or kind.dtype is DType.BOOL or name in rule.below_by)
    }
    kinds = {name: kind.dtype for name, kind in types.items()}
    plain = random_operands(rule, holes, random)
    shapes = {name: plain[name].shape for name in types}
    for drawn in meeting_integers(shapes, kinds, _integer_constants(lhs, rhs), random):
        tensors = {**plain, **drawn}
        if found := _unequal_where_defined(rule, lhs, rhs, tensors):
            return f"with {shown_operands(tensors)} {found}"
    return ""


def _integers_near(below: int, lhs: Graph, rhs: Graph) -> list[int]:
    constants = _integer_constants(lhs, rhs)
    near = {each + step for each in (0, below, *constants) for step in (-1, 0, 1)}
    if _is_elementwise(lhs, rhs):
        near |= {*_LARGE_INTEGERS, -1000, -7, 1000}
        return sorted(near)
    return sorted(each for each in near if abs(each) <= 4096)


def _integer_constants(*sides: Graph) -> set[int]:
    constants = [n.op.value for side in sides for n in side.nodes if isinstance(n.op, Constant)]
    return {int(each) for each in constants if float(each).is_integer()}


def _is_elementwise(*sides: Graph) -> bool:
    """Say whether an integer of any size is a value, and no index, on all sides."""
    return all(isinstance(node.op, _ELEMENTWISE) for side in sides for node in side.nodes)


def _unequal_where_defined(rule: Rule, lhs: Graph, rhs: Graph, tensors: Mapping[str, Array]) -> str:
    bitwise = rule.fidelity is Fidelity.BITWISE
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
        exactly = bitwise or a.dtype.kind != "f"
        if a.shape != c.shape or (exactly and not np.all(same_bits(a, c))):
            return shown_difference(a, c)
    try:
        return unequal(lhs, rhs, tensors)
    except (IndexError, ValueError):
        return ""  # the bound of the rounding is about what is in range


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
