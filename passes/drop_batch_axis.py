"""From ``[batch, tokens, ...]`` to ``[rows, ...]``: in serving, a row is a token of any request."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.location import Location
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Attention,
    Call,
    Concat,
    Expand,
    GatherRows,
    Input,
    Reshape,
    Transpose,
)
from ascendfx.ir.ops.select import Select
from ascendfx.ir.pointwise import Binary, Comparison
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim, named_size, names_in
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass

ROWS = named_size("rows")
"""The token axis of the serving form."""


@dataclass(frozen=True, slots=True)
class DropBatchAxis(ProgramPass):
    """Sets ``batch`` to one and ``tokens`` to ``rows``, and removes the axis of size one.

    Attention keeps its batch axis of size one, because that is the axis along which sequences do
    not see each other; the incremental form replaces it.

    Attributes:
        batch: Name of the batch size in the captured program.
        tokens: Name of the sequence length in the captured program.
    """

    name: ClassVar[str] = "drop-batch-axis"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    batch: str = "batch"
    tokens: str = "tokens"

    def run(self, program: Program) -> PassResult:
        """Transform every graph; the signature of each changes in the same way.

        Raises:
            GraphError: The axis of texts is moved from the front, or an operation mixes texts, or
                puts values along the axis of tokens.
        """
        sizes: dict[str, Dim] = {self.batch: 1, self.tokens: ROWS}
        graphs = tuple(_Dropper(graph, sizes).run() for graph in program.graphs)
        if graphs == program.graphs:
            return PassResult(program)
        return PassResult(Program(graphs, program.recipes), {"graphs": len(graphs)})


def has_batch_axis(kind: TensorType) -> bool:
    """Say whether ``kind`` is ``[1, .., rows, ..]`` and loses its first axis."""
    return kind.rank >= 2 and kind.shape[0] == 1 and any("rows" in names_in(d) for d in kind.shape)


def without_batch_axis(kind: TensorType) -> TensorType:
    """Return the type after the pass."""
    return kind.with_shape(kind.shape[1:]) if has_batch_axis(kind) else kind


class _Dropper:
    def __init__(self, graph: Graph, sizes: dict[str, Dim]) -> None:
        self._graph = graph
        self._sizes = sizes
        self._builder = GraphBuilder(graph.name)
        self._moved: dict[Value, Value] = {}
        self._full: dict[Value, TensorType] = {}

    def run(self) -> Graph:
        for position, node in enumerate(self._graph.nodes):
            with self._builder.at(node.location):
                op = node.op.substitute(self._sizes)
                results = self._emit(op, node)
            for i, result in enumerate(results):
                value = Value(position, i)
                self._full[value] = node.types[i].substitute(self._sizes)
                self._moved[value] = result
        return self._builder.build(*(self._moved[v] for v in self._graph.outputs))

    def _emit(self, op: Op, node: Node) -> tuple[Value, ...]:
        full = [self._full[v] for v in node.operands]
        moved = [self._moved[v] for v in node.operands]
        results = [kind.substitute(self._sizes) for kind in node.types]
        match op:
            case Input(name=name, type=kind):
                return (self._builder.add(Input(name, without_batch_axis(kind))),)
            case Call(types=types):
                return self._builder.add_multi(
                    dataclasses.replace(op, types=tuple(map(without_batch_axis, types))), *moved
                )
            case Reshape() | Expand():
                return (self._shaped(op, moved[0], without_batch_axis(results[0])),)
            case Attention():
                return self._attention(op, full, moved)
            case GatherRows() if not has_batch_axis(full[0]):
                return (self._builder.add(op, *moved),)
            case _ if not any(map(has_batch_axis, full)):
                return self._builder.add_multi(op, *moved)
            case Binary() | Comparison() | Select():
                rank = results[0].rank - 1
                return self._builder.add_multi(op, *(self._at_most(v, rank) for v in moved))
            case Concat() if not all(map(has_batch_axis, full)):
                raise _refusal(
                    f"{op.mnemonic} works along the axis of tokens, which are those of several "
                    "requests in a step",
                    node.location,
                    "what a row holds must depend on its own token alone; only attention reads "
                    "other tokens",
                )
            case _:
                return self._builder.add_multi(_shift_axes(op, node.location), *moved)

    def _shaped(self, op: Reshape | Expand, operand: Value, result: TensorType) -> Value:
        if self._builder.type_of(operand) == result:
            return operand
        if isinstance(op, Expand) and self._builder.type_of(operand).rank > result.rank:
            operand = self._at_most(operand, result.rank)
            if self._builder.type_of(operand) == result:
                return operand
        return self._builder.add(dataclasses.replace(op, shape=result.shape), operand)

    def _at_most(self, value: Value, rank: int) -> Value:
        kind = self._builder.type_of(value)
        if kind.rank <= rank:
            return value
        return self._builder.add(Reshape(kind.shape[kind.rank - rank :]), value)

    def _attention(
        self, op: Attention, full: list[TensorType], moved: list[Value]
    ) -> tuple[Value, ...]:
        restored = [
            self._builder.add(Reshape(kind.shape), value)
            if self._builder.type_of(value) != kind
            else value
            for kind, value in zip(full, moved, strict=True)
        ]
        result = self._builder.add(op, *restored)
        kind = without_batch_axis(self._builder.type_of(result))
        return (self._builder.add(Reshape(kind.shape), result),)


def _shift_axes(op: Op, location: Location) -> Op:
    """Return ``op`` for operands that lost their first axis."""
    changed: dict[str, Any] = {}
    if isinstance(op, Transpose):
        first, *others = op.permutation
        if first != 0:
            raise _refusal(f"{op.mnemonic} moves the axis of texts away from the front", location)
        changed["permutation"] = tuple(axis - 1 for axis in others)
    elif hasattr(op, "axes"):
        changed["axes"] = tuple(axis - 1 for axis in op.axes)  # pyright: ignore[reportAttributeAccessIssue]
    elif hasattr(op, "axis"):
        changed["axis"] = op.axis - 1  # pyright: ignore[reportAttributeAccessIssue]
    if any(axis < 0 for axis in (changed.get("axis", 0), *changed.get("axes", ()))):
        raise _refusal(f"{op.mnemonic} works along the axis of texts", location)
    return dataclasses.replace(op, **changed) if changed else op


_FIRST = (
    "keep `batch` the first axis, for example by splitting the last axis instead of making one of "
    "its parts the first"
)


def _refusal(reason: str, location: Location, hint: str = _FIRST) -> GraphError:
    return GraphError(code="batch-axis", reason=reason, location=location, hint=hint)
