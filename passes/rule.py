"""A local rewrite: two sides of one identity, written once and used four ways."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Op
from ascendfx.ir.size import Dim, parse_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.graph_pass import Fidelity

REST = "*"
"""In the axes of an operand: any number of leading axes."""


class Proof(enum.Enum):
    """How the identity of a rule is shown for all values; `check_rule` refuses a wrong kind.

    In every kind float operands are symbols, so that one evaluation stands for all values.
    """

    SYMBOLIC = "symbolic"
    """Float operands only, and no side looks at an order: one evaluation, simplified to zero."""
    CASES = "cases"
    """A side orders float values (maximum, relu, comparison, sort, top-k): one evaluation for each
    order and sign of what is compared, as far as both sides ask; ties are cases of their own."""
    EXHAUSTIVE = "exhaustive"
    """Integer or truth operands and no order of floats: one evaluation for each of their values
    within a small domain; float operands move as symbols. Integer results are equal exactly."""


class SideBuilder(Protocol):
    """What a left side may use: it is run on a `GraphBuilder` and on a recorder of patterns."""

    def add(self, op: Op, *operands: Value) -> Value:
        """Append a node with one result."""
        ...

    def add_multi(self, op: Op, *operands: Value) -> tuple[Value, ...]:
        """Append a node and return all its results."""
        ...


Side = Callable[..., Value | tuple[Value, ...]]
"""``side(builder, holes, *operands)``: one result or several, the root first.

``holes`` has one attribute per captured attribute and per axis letter: symbols while a pattern is
recorded, numbers and formats otherwise. ``holes.last`` is the last axis of the first operand,
``holes.last_y`` that of operand ``y``.
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a left side was found.

    Attributes:
        graph: The graph that contains it.
        bound: The value bound to each operand of the rule.
        holes: What was captured for each hole and axis letter.
        interior: Positions of all matched nodes, the root among them.
        outputs: The values that the results of the right side replace, the root first.
    """

    graph: Graph
    bound: Mapping[str, Value]
    holes: Mapping[str, Any]
    interior: frozenset[int]
    outputs: tuple[Value, ...]

    def type_of(self, operand: str) -> TensorType:
        """Return the type of the value bound to an operand."""
        return self.graph.type_of(self.bound[operand])


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition on a site beyond its pattern.

    Attributes:
        blocks: Kebab-case name of the situation it excludes. The file
            ``tests/filecheck/<rule>.<blocks>.ir`` shows one.
        holds: Says whether a site may be rewritten.
        otherwise: The remark shown when it may not.
    """

    blocks: str
    holds: Callable[[Site], bool]
    otherwise: str


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write the left side.

    Attributes:
        lhs: Builds the pattern.
        fixed: Holes whose values follow from this way of writing.
    """

    lhs: Side
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Values:
    """What the elements of a float operand may be.

    The proof takes all reals; a range that excludes a sign (``low >= 0``) restricts it and must
    therefore be ensured by a precondition. The rounding analysis draws its values from the range.

    Attributes:
        low: Smallest value.
        high: Largest value.
        ensured_by: The `Precondition.blocks` that makes sure of it; needed if ``low >= 0``.
        because: Why a range narrower than the default is enough, if no precondition ensures it.
    """

    low: float = -128.0
    high: float = 128.0
    ensured_by: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True)
class Growth:
    """An allowance for rounding beyond the derived one.

    Attributes:
        factor: Largest ratio of the error bound of the right side to that of the left side.
        reason: Why that much is acceptable.
    """

    factor: float
    reason: str


@dataclass(frozen=True, slots=True)
class Rule:
    """``lhs == rhs`` for all operands, applied from left to right.

    Attributes:
        name: Kebab-case, says what the rewrite does or which operation appears.
        identity: The statement, for people; the proof uses the sides themselves.
        source: Where the identity is derived.
        operands: Operand name to ``"[format:] axes"``, for example ``{"x": "narrow: * 2*h"}``:
            equal letters are equal sizes, ``*`` are any leading axes, the format is a `DType` or
            a hole.
        spellings: The left sides that occur; each must equal the right side.
        rhs: Builds the replacement.
        fidelity: How equal the sides are.
        holes: Values of the holes for the proof, given the sizes of the axis letters; ``lead`` is
            the tuple of sizes that stands for ``*``.
        derive: Holes that follow from the surroundings of a site, for the right side.
        below: Integer operands of the proof and the size name their values stay below. An
            operation of the left side must take them as indices of that size, or the sides must
            be equal for other integers too; or a precondition makes sure of it:
        below_by: Integer operands and the `Precondition.blocks` that keeps them below.
        orthogonal: Square operands that are rotations, and the `Precondition.blocks` that makes
            sure of it. The proof takes reflections ``I - 2 v vᵀ / (vᵀ v)`` for all ``v``: every
            rotation is a product of them (Cartan and Dieudonné), so that a rule which may be
            applied to one factor after the other holds for it.
        minimum: Smallest size of an axis letter that the proof takes; else 1. A site with an
            empty axis does not match (named sizes are positive).
        when: Conditions a site must meet.
        proof: How the identity is shown for all values.
        values: Ranges of float operands, by name; `Values()` for those not named.
        growth: How much larger the rounding error may become, where the derived allowance (see
            `rounding_growth`) is not enough.
        cyclic: Whether the rule may match its own result again and again: `ApplyRules` tries such
            a rule in its first round only, because it would never end.
    """

    name: str
    identity: str
    source: str
    operands: Mapping[str, str]
    spellings: tuple[Spelling, ...]
    rhs: Side
    fidelity: Fidelity
    holes: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: {}
    derive: Callable[[Site], Mapping[str, Any]] = lambda _: {}
    below: Mapping[str, str] = field(default_factory=dict[str, str])
    below_by: Mapping[str, str] = field(default_factory=dict[str, str])
    orthogonal: Mapping[str, str] = field(default_factory=dict[str, str])
    minimum: Mapping[str, int] = field(default_factory=dict[str, int])
    when: tuple[Precondition, ...] = ()
    proof: Proof = Proof.SYMBOLIC
    values: Mapping[str, Values] = field(default_factory=dict[str, Values])
    growth: Growth | None = None
    cyclic: bool = False


@dataclass(frozen=True, slots=True)
class OperandForm:
    """The parsed declaration of an operand.

    Attributes:
        format: A format, the name of a hole, or None for any format.
        rest: Whether any number of axes may stand before ``axes``.
        axes: Sizes over the axis letters.
    """

    format: DType | str | None
    rest: bool
    axes: tuple[Dim, ...]


def parse_operand(text: str) -> OperandForm:
    """Read ``"[format:] axes"``.

    Raises:
        ValueError: An axis is not an expression over letters.
    """
    head, colon, tail = text.rpartition(":")
    words = tail.split()
    known = {each.value: each for each in DType}
    format_ = known.get(head.strip(), head.strip()) if colon else None
    axes = tuple(parse_size(word) for word in words if word != REST)
    return OperandForm(format_, REST in words, axes)


def as_tuple(result: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the results of a side as a tuple (a `Value` is itself a tuple, hence this).

    Raises:
        TypeError: A side returned something else, such as a list.
    """
    if isinstance(result, Value):
        return (result,)
    given: Any = result  # a side of a user may return anything
    if not isinstance(given, tuple):
        raise TypeError(f"a side returns {type(given).__name__}, not a Value or a tuple of Values")
    for each in result:
        if not isinstance(each, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a side returns a tuple with {type(each).__name__}, not of Values")
    return result
