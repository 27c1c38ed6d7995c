"""Which rows, positions and caches each part of a step uses, told across calls."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.location import Location
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    AdvanceRequests,
    AlignDrafts,
    BranchDrafts,
    CacheRead,
    CacheWrite,
    Call,
    Constant,
    GatherRows,
    Input,
    MoveEntries,
    PackRows,
    Param,
    RaggedAttention,
    Rotary,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
    Subtract,
    VerifyDrafts,
    VerifyTree,
)
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import CACHE_PREFIX


class Root(NamedTuple):
    """A value and the calls that it is in: the same wherever it is handed on.

    Attributes:
        calls: Positions of the calls from the entry on.
        value: In the graph that the last of them runs.
    """

    calls: tuple[int, ...]
    value: Value


@dataclass(frozen=True, slots=True)
class Trace:
    """What a value is made of.

    Attributes:
        root: The value itself.
        tokens: Token ids of rows that it depends on: inputs, or results of shifts.
        positions: Positions of rows that it depends on.
        caches: Caches whose entries it holds.
        moved: Whether something was added to positions on the way.
        counts: Whether it depends on positions and weights alone.
    """

    root: Root
    tokens: frozenset[Root] = frozenset()
    positions: frozenset[Root] = frozenset()
    caches: frozenset[str] = frozenset()
    moved: bool = False
    counts: bool = False


class Step(NamedTuple):
    """A node that was seen, with what it read and where it is."""

    op: Op
    operands: tuple[Trace, ...]
    results: tuple[Trace, ...]
    location: Location


@dataclass(slots=True)
class StepTrace:
    """All that touches rows of a step, in order.

    Attributes:
        inputs: Of the entry, by name.
        steps: Shifts, verification, access to caches, attentions and rotations.
        outputs: Of the entry.
    """

    inputs: dict[str, Trace] = field(default_factory=dict[str, Trace])
    steps: list[Step] = field(default_factory=list[Step])
    outputs: tuple[Trace, ...] = ()

    def of(self, kind: type[Op]) -> list[Step]:
        """Return the steps of one operation."""
        return [step for step in self.steps if isinstance(step.op, kind)]

    @property
    def verified(self) -> list[Step]:
        """The steps that find which drafts are accepted."""
        return [step for step in self.steps if isinstance(step.op, VerifyDrafts | VerifyTree)]


_KEPT = (
    AdvanceRequests,
    AlignDrafts,
    BranchDrafts,
    CacheRead,
    CacheWrite,
    GatherRows,
    MoveEntries,
    PackRows,
    RaggedAttention,
    Rotary,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
    VerifyDrafts,
    VerifyTree,
)


_Chosen = AdvanceRequests | SampleTokens | VerifyDrafts | VerifyTree
"""What decides about tokens: its results are other tokens than those it reads."""


def trace_step(program: Program) -> StepTrace:
    """Return what each part of a closed step reads and writes."""
    found = StepTrace()
    main = program.main
    for value in main.inputs:
        op = main.op_of(value)
        assert isinstance(op, Input)  # noqa: S101  # the graph selects inputs
        root = Root((), value)
        alone = frozenset({root})
        found.inputs[op.name] = Trace(
            root,
            tokens=alone if op.name == "token_ids" else frozenset(),
            positions=alone if op.name == "positions" else frozenset(),
            caches=frozenset({op.name}) if op.name.startswith(CACHE_PREFIX) else frozenset(),
            counts=op.name == "positions",
        )
    found.outputs = _walk(program, main, tuple(found.inputs.values()), (), found)
    return found


def _walk(
    program: Program,
    graph: Graph,
    given: tuple[Trace, ...],
    calls: tuple[int, ...],
    found: StepTrace,
) -> tuple[Trace, ...]:
    traces: dict[Value, Trace] = dict(zip(graph.inputs, given, strict=True))
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Input):
            continue
        operands = tuple(traces[v] for v in node.operands)
        if isinstance(node.op, Call):
            body = program.by_name[node.op.callee]
            results = _walk(program, body, operands, (*calls, position), found)
        else:
            roots = [Root(calls, Value(position, i)) for i in range(len(node.types))]
            results = tuple(_result(node, operands, root) for root in roots)
            if isinstance(node.op, _KEPT):
                found.steps.append(Step(node.op, operands, results, node.location))
        traces.update((Value(position, i), each) for i, each in enumerate(results))
    return tuple(traces[v] for v in graph.outputs)


def _result(node: Node, operands: tuple[Trace, ...], root: Root) -> Trace:
    op, alone = node.op, frozenset({root})
    rows = isinstance(op, AlignDrafts | PackRows)
    if isinstance(op, ShiftTokens) or (rows and root.value.result == 0):
        return Trace(root, tokens=alone)
    if rows and root.value.result == 1:
        return Trace(root, positions=alone, counts=True)
    if isinstance(op, BranchDrafts) or (isinstance(op, SampleDrafts) and not root.value.result):
        return Trace(root, tokens=operands[0].tokens)
    if isinstance(op, AlignDrafts | Constant | PackRows | Param | SampleDrafts | _Chosen):
        return Trace(root, counts=isinstance(op, Constant | Param))
    if isinstance(op, MoveEntries):
        return operands[root.value.result]
    whole = _joined(operands, root)
    if isinstance(op, CacheWrite):
        return Trace(operands[0].root, whole.tokens, whole.positions, operands[0].caches)
    if isinstance(op, GatherRows | RaggedAttention):  # what is looked up is no entry any more
        return Trace(root, whole.tokens, whole.positions)
    moves = isinstance(op, Add | Subtract) and whole.counts and bool(whole.positions)
    return Trace(
        root, whole.tokens, whole.positions, whole.caches, whole.moved or moves, whole.counts
    )


def _joined(operands: tuple[Trace, ...], root: Root) -> Trace:
    def union(parts: list[frozenset[Root]]) -> frozenset[Root]:
        return frozenset[Root]().union(*parts)

    return Trace(
        root,
        tokens=union([each.tokens for each in operands]),
        positions=union([each.positions for each in operands]),
        caches=frozenset[str]().union(*(each.caches for each in operands)),
        moved=any(each.moved for each in operands),
        counts=all(each.counts for each in operands),
    )
