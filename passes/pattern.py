"""The left side of a rule as a pattern: recorded by calling it with symbols."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    AdvanceRequests,
    AlignDrafts,
    DispatchExperts,
    Equal,
    LogicalAnd,
    LogicalOr,
    Maximum,
    Minimum,
    Multiply,
    NotEqual,
    PackRows,
    RouteTopk,
    SampleDrafts,
    Sort,
    Topk,
    VerifyDrafts,
    VerifyTree,
)
from ascendfx.ir.size import named_size
from ascendfx.passes.rule import OperandForm, Rule, Spelling, as_tuple, parse_operand

COMMUTATIVE = (Add, Multiply, Maximum, Minimum, Equal, NotEqual, LogicalAnd, LogicalOr)
_RESULTS: Mapping[type[Op], int] = {
    AdvanceRequests: 7,
    AlignDrafts: 7,
    DispatchExperts: 3,
    PackRows: 6,
    RouteTopk: 2,
    SampleDrafts: 3,
    Sort: 2,
    Topk: 2,
    VerifyDrafts: 3,
    VerifyTree: 4,
}


@dataclass(frozen=True, slots=True)
class PatternNode:
    """A node of a pattern: an operation whose attributes may be symbols, or an operand."""

    op: Op | str
    operands: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """One recorded left side of a rule."""

    rule: Rule
    spelling: Spelling
    forms: Mapping[str, OperandForm]
    nodes: tuple[PatternNode, ...]
    outputs: tuple[Value, ...]

    @property
    def size(self) -> int:
        """Number of operations."""
        return sum(not isinstance(node.op, str) for node in self.nodes)


def patterns_of(rule: Rule) -> tuple[Pattern, ...]:
    """Return the left sides of a rule as patterns."""
    return tuple(_record(rule, spelling) for spelling in rule.spellings)


def _record(rule: Rule, spelling: Spelling) -> Pattern:
    recorder = _Recorder()
    operands: list[Value] = []
    for name in rule.operands:
        recorder.nodes.append(PatternNode(name))
        operands.append(Value(len(recorder.nodes) - 1))
    outputs = as_tuple(spelling.lhs(recorder, _Symbols(spelling.fixed), *operands))
    forms = {name: parse_operand(text) for name, text in rule.operands.items()}
    return Pattern(rule, spelling, forms, tuple(recorder.nodes), outputs)


def concrete_holes(**values: Any) -> SimpleNamespace:
    """Return the holes as a side sees them when numbers are known."""
    return SimpleNamespace(**values)


class _Recorder:
    """A `SideBuilder` that accepts symbols as attributes, because it infers no types."""

    def __init__(self) -> None:
        self.nodes: list[PatternNode] = []

    def add(self, op: Op, *operands: Value) -> Value:
        return self.add_multi(op, *operands)[0]

    def add_multi(self, op: Op, *operands: Value) -> tuple[Value, ...]:
        self.nodes.append(PatternNode(op, operands))
        count = _RESULTS.get(type(op), 1)
        return tuple(Value(len(self.nodes) - 1, i) for i in range(count))


class _Symbols:
    """Holes while a pattern is recorded: every attribute is the symbol of its name."""

    def __init__(self, fixed: Mapping[str, Any]) -> None:
        self._fixed = fixed

    def __getattr__(self, name: str) -> Any:
        return self._fixed.get(name, named_size(name))
