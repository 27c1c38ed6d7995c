"""Replace functions of the position by tables: the vector unit has no sine and cosine.

A value that depends on nothing but the step's positions and on weights is, row by row, a function
of one small integer. The function is evaluated once for every position, by the weight program, and
a step looks its rows up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import (
    AlignDrafts,
    Cast,
    Concat,
    Expand,
    GatherRows,
    Input,
    Iota,
    Linear,
    Matmul,
    PackRows,
    Reshape,
    Select,
    Slice,
    Transpose,
)
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.pointwise import Binary, Comparison, Unary
from ascendfx.ir.size import Dim, named_size, names_in
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild

_ROWS = named_size("rows")
_ANY_ROWS = (_ROWS, PACKED_ROWS)
_POSITIONS = 1
"""Which result of `AlignDrafts` and `PackRows`."""
_ROW_BY_ROW = (
    Binary,
    Cast,
    Comparison,
    Concat,
    Expand,
    Linear,
    Matmul,
    Reshape,
    Select,
    Slice,
    Transpose,
    Unary,
)
"""Operations that keep rows apart whenever one axis of each operand and result is the rows."""


@dataclass(frozen=True, slots=True)
class TabulatePositions(GraphPass):
    """Tabulates what a step computes from `positions` and weights alone.

    Attributes:
        positions: Rows of a table: one more than the largest position.
    """

    name: ClassVar[str] = "tabulate-positions"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    positions: int

    def run_graph(self, graph: Graph) -> GraphResult:
        """Replace the last values that are functions of the position."""
        sources = _functions_of_position(graph)
        frontier = _frontier(graph, sources)
        if not frontier:
            return GraphResult(graph)
        moved: dict[Value, Value] = {}

        def emit(
            builder: GraphBuilder, position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            value = Value(position)
            if value in frontier:
                return (self._look_up(builder, graph, value, sources, moved[sources[value]]),)
            results = builder.add_multi(node.op, *operands)
            moved.update((Value(position, i), each) for i, each in enumerate(results))
            return results

        changed = DropUnused().run_graph(rebuild(graph, emit)).graph
        return GraphResult(changed, {"tables": len(frontier)})

    def _look_up(
        self,
        builder: GraphBuilder,
        graph: Graph,
        value: Value,
        sources: Mapping[Value, Value],
        positions: Value,
    ) -> Value:
        """Append the value for every position, and the choice of rows."""
        moved = {sources[value]: builder.add(Iota(self.positions, DType.I32))}
        for each in _needed(graph, value, sources[value]):
            node = graph.nodes[each]
            op = node.op.substitute({str(rows): self.positions for rows in _ANY_ROWS})
            moved[Value(each)] = builder.add(op, *(moved[v] for v in node.operands))
        shape = graph.type_of(value).shape
        table = moved[value]
        axis = _row_axis(shape)
        inner = shape[axis + 1 :]
        if axis:
            table = builder.add(Reshape((self.positions, *inner)), table)
        rows = builder.add(GatherRows(), table, positions)
        return builder.add(Reshape(shape), rows) if axis else rows


def _needed(graph: Graph, value: Value, source: Value) -> list[int]:
    """Return the nodes that make ``value`` from positions, in order."""
    found: set[int] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if each != source and each.node not in found:
            found.add(each.node)
            pending += graph.nodes[each.node].operands
    return sorted(found)


def _are_positions(node: Node, result: int) -> bool:
    """Return whether a result has the position of each row: the input, or other rows."""
    if isinstance(node.op, AlignDrafts | PackRows):
        return result == _POSITIONS
    return node.op == Input("positions", TensorType(DType.I32, (_ROWS,)))


def _functions_of_position(graph: Graph) -> dict[Value, Value]:
    """Return values that depend on positions and weights alone, row by row, and which positions."""
    sources: dict[Value, Value] = {}
    weights: set[Value] = set()
    for position, node in enumerate(graph.nodes):
        for i in range(len(node.types)):
            if _are_positions(node, i):
                sources[Value(position, i)] = Value(position, i)
        if isinstance(node.op, Input) or len(node.types) != 1:
            continue
        if all(v in weights for v in node.operands):
            weights.update(() if node.types[0].names else (Value(position),))
        elif isinstance(node.op, _ROW_BY_ROW) and _keeps_rows_apart(graph, node, sources, weights):
            sources[Value(position)] = next(sources[v] for v in node.operands if v in sources)
    return sources


def _keeps_rows_apart(
    graph: Graph, node: Node, sources: Mapping[Value, Value], weights: set[Value]
) -> bool:
    if any(v not in sources and v not in weights for v in node.operands):
        return False
    of_rows = [v for v in node.operands if v in sources]
    kinds = [graph.type_of(v) for v in of_rows]
    same = len({sources[v] for v in of_rows}) == 1
    return same and all(_has_one_row_axis(kind) for kind in (*kinds, node.types[0]))


def _has_one_row_axis(kind: TensorType) -> bool:
    named = [size for size in kind.shape if names_in(size)]
    return len(named) == 1 and named[0] in _ANY_ROWS


def _frontier(graph: Graph, sources: Mapping[Value, Value]) -> frozenset[Value]:
    """Return the computed functions of the position that something else reads."""
    read = set(graph.outputs)
    for position, node in enumerate(graph.nodes):
        if Value(position) not in sources:
            read.update(node.operands)
    return frozenset(
        value
        for value in read
        if value in sources
        and graph.type_of(value).dtype in (DType.F32, DType.BF16)
        and all(size == 1 for size in _before_rows(graph.type_of(value)))
    )


def _before_rows(kind: TensorType) -> tuple[Dim, ...]:
    return kind.shape[: _row_axis(kind.shape)]


def _row_axis(shape: tuple[Dim, ...]) -> int:
    return next(axis for axis, size in enumerate(shape) if size in _ANY_ROWS)
