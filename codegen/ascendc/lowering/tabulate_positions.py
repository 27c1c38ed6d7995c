"""Replace functions of the position by tables: the vector unit has no sine and cosine.

A value that depends on nothing but the step's positions and on weights is, row by row, a function
of one small integer. The function is evaluated once for every position, by the weight program, and
a step looks its rows up.
"""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Cast,
    Concat,
    Expand,
    GatherRows,
    Input,
    Iota,
    Linear,
    Matmul,
    Reshape,
    Select,
    Slice,
    Transpose,
)
from ascendfx.ir.pointwise import Binary, Comparison, Unary
from ascendfx.ir.size import Dim, named_size, names_in
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild

_ROWS = named_size("rows")
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
        known = _functions_of_position(graph)
        frontier = _frontier(graph, known)
        if not frontier:
            return GraphResult(graph)
        positions = next(i for i, node in enumerate(graph.nodes) if _is_positions(node.op))
        moved: dict[int, Value] = {}

        def emit(
            builder: GraphBuilder, position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if position == positions:
                moved[position] = builder.add(node.op, *operands)
                return (moved[position],)
            if Value(position) not in frontier:
                return None
            return (self._look_up(builder, graph, position, moved[positions]),)

        changed = DropUnused().run_graph(rebuild(graph, emit)).graph
        return GraphResult(changed, {"tables": len(frontier)})

    def _look_up(
        self, builder: GraphBuilder, graph: Graph, position: int, positions: Value
    ) -> Value:
        """Append the value for every position, and the choice of rows."""
        moved: dict[int, Value] = {}
        for each in sorted(graph.needed((Value(position),))):
            node = graph.nodes[each]
            op = node.op.substitute({"rows": self.positions})
            if _is_positions(node.op):
                op = Iota(self.positions, DType.I32)
            moved[each] = builder.add(op, *(moved[v.node] for v in node.operands))
        shape = graph.nodes[position].types[0].shape
        table = moved[position]
        inner = shape[shape.index(_ROWS) + 1 :]
        if shape[0] != _ROWS:
            table = builder.add(Reshape((self.positions, *inner)), table)
        rows = builder.add(GatherRows(), table, positions)
        return rows if shape[0] == _ROWS else builder.add(Reshape(shape), rows)


def _is_positions(op: Op) -> bool:
    return op == Input("positions", TensorType(DType.I32, (_ROWS,)))


def _functions_of_position(graph: Graph) -> frozenset[int]:
    """Return nodes whose results depend on positions and weights alone, row by row."""
    found: set[int] = set()
    weights: set[int] = set()
    for position, node in enumerate(graph.nodes):
        if _is_positions(node.op):
            found.add(position)
        elif isinstance(node.op, Input) or len(node.types) != 1:
            continue
        elif all(v.node in weights for v in node.operands):
            weights.update(() if node.types[0].names else (position,))
        elif isinstance(node.op, _ROW_BY_ROW) and _keeps_rows_apart(graph, node, found, weights):
            found.add(position)
    return frozenset(found)


def _keeps_rows_apart(graph: Graph, node: Node, found: set[int], weights: set[int]) -> bool:
    if any(v.node not in found and v.node not in weights for v in node.operands):
        return False
    kinds = [graph.type_of(v) for v in node.operands if v.node in found]
    return all(_has_one_row_axis(kind) for kind in (*kinds, node.types[0]))


def _has_one_row_axis(kind: TensorType) -> bool:
    named = [size for size in kind.shape if names_in(size)]
    return named == [_ROWS]


def _frontier(graph: Graph, known: frozenset[int]) -> frozenset[Value]:
    """Return the computed functions of the position that something else reads."""
    read = set(graph.outputs)
    for position, node in enumerate(graph.nodes):
        if position not in known:
            read.update(node.operands)
    return frozenset(
        value
        for value in read
        if value.node in known
        and graph.type_of(value).dtype in (DType.F32, DType.BF16)
        and all(size == 1 for size in _before_rows(graph.type_of(value)))
    )


def _before_rows(kind: TensorType) -> tuple[Dim, ...]:
    return kind.shape[: kind.shape.index(_ROWS)]
