"""Whether each row of a result depends on the same row of some operands, and on nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Argmax,
    Cast,
    CombineExperts,
    Concat,
    CumulativeSum,
    DispatchExperts,
    Expand,
    GatherRows,
    GroupedLinear,
    HeadLinear,
    Linear,
    Matmul,
    RaggedAttention,
    Reshape,
    RmsNorm,
    Rotary,
    RouteTopk,
    RowGroups,
    Select,
    Slice,
    Softmax,
    Sort,
    SplitCodes,
    Swiglu,
    TakeAlong,
    Topk,
    Transpose,
)
from ascendfx.ir.pointwise import Binary, Comparison, Unary
from ascendfx.ir.reduction import Reduction
from ascendfx.ir.size import names_in
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.drop_batch_axis import ROWS
from ascendfx.passes.token_axis import mixed_tokens

_ROWS_NAME = "rows"
_BY_ROW: tuple[type[Op], ...] = (
    Argmax,
    Binary,
    Cast,
    Comparison,
    Concat,
    CumulativeSum,
    Expand,
    HeadLinear,
    Linear,
    Matmul,
    Reduction,
    Reshape,
    RmsNorm,
    Rotary,
    RouteTopk,
    Select,
    Slice,
    Softmax,
    Sort,
    SplitCodes,
    Swiglu,
    TakeAlong,
    Topk,
    Transpose,
    Unary,
)
"""What treats rows alike unless it works along their axis, see `mixed_tokens`."""

HEAVY: tuple[type[Op], ...] = (
    DispatchExperts,
    GroupedLinear,
    HeadLinear,
    Linear,
    Matmul,
    RaggedAttention,
    RouteTopk,
)
"""What costs more than a choice of rows."""


@dataclass(frozen=True)
class RowWise:
    """Which nodes of a graph treat every row by itself.

    A row is an element of the first axis of a value ``[rows, ...]``. The pairs of a row and its
    experts, ``[k * rows, ...]`` in the order of one `DispatchExperts`, are treated by themselves as
    well: they are no rows, but what `CombineExperts` makes of them is.

    Attributes:
        graph: A graph of a serving form.
    """

    graph: Graph

    def row_operands(self, position: int) -> tuple[int, ...] | None:
        """Return the operands of which a node needs just the rows of its results; None: all rows.

        The other operands it needs as they are.
        """
        node = self.graph.nodes[position]
        match node.op:
            case RaggedAttention():
                roles = node.op.roles(range(len(node.operands)))
                tree = () if roles.ancestors is None else (roles.ancestors,)
                return (*roles.queries, roles.positions, roles.row_request, *tree)
            case DispatchExperts():
                return (0,) if self._of_rows(node.operands[0]) else None
            case GatherRows() if self.dispatch.get(Value(position)) is not None:
                return (0, 1) if self._of_rows(node.operands[0]) else (1,)
            case RowGroups():
                return (0,) if self.dispatch.get(Value(position)) is not None else None
            case GatherRows():
                fixed = not _names_rows(self.graph.type_of(node.operands[0]))
                return (1,) if fixed and self._of_rows(node.operands[1]) else None
            case GroupedLinear():
                return (0, 2) if self.dispatch.get(Value(position)) is not None else None
            case CombineExperts():
                return (0, 1, 2) if self._combines(node) else None
            case _:
                return self._by_row(position)

    @cached_property
    def dispatch(self) -> Mapping[Value, int]:
        """The `DispatchExperts` by whose order the pairs of each value are sorted."""
        found: dict[Value, int] = {}
        for position, node in enumerate(self.graph.nodes):
            origin = self._origin(position, node, found)
            if origin is not None:
                found.update((Value(position, i), origin) for i in range(len(node.types)))
        return found

    def _origin(self, position: int, node: Node, found: Mapping[Value, int]) -> int | None:
        match node.op:
            case DispatchExperts():
                return position if self._of_rows(node.operands[0]) else None
            case GatherRows():
                return self._gathered(node, found)
            case RowGroups(size=size):
                (ends,) = node.operands
                origin = found.get(ends)
                pairs = None if origin is None else self.graph.nodes[origin].types[0].shape
                return origin if ends == Value(origin or 0, 2) and (size,) == pairs else None
            case GroupedLinear():
                x, weight, ends = node.operands
                origin = found.get(x)
                ordered = origin is not None and ends == Value(origin, 2)
                fixed = not _names_rows(self.graph.type_of(weight))
                return origin if ordered and fixed else None
            case CombineExperts():
                return None
            case _ if isinstance(node.op, _BY_ROW):
                pairs = [v for v in node.operands if _names_rows(self.graph.type_of(v))]
                origins = {found.get(v) for v in pairs}
                sizes = {self.graph.type_of(v).shape[0] for v in pairs if self._is_row_major(v)}
                alike = len(origins) == 1 and len(sizes) == 1 and self._keeps_rows(node)
                return origins.pop() if alike and ROWS not in sizes else None
            case _:
                return None

    def _gathered(self, node: Node, found: Mapping[Value, int]) -> int | None:
        """Return the order of rows that were taken for pairs, or of what their experts have."""
        table, ids = node.operands
        origin = found.get(ids)
        if origin is None or ids.node == origin:
            return origin if ids == Value(origin or 0, 0) and self._of_rows(table) else None
        fixed = not _names_rows(self.graph.type_of(table))
        return origin if fixed and isinstance(self.graph.op_of(ids), RowGroups) else None

    def _combines(self, node: Node) -> bool:
        y, place, weights = node.operands
        origin = self.dispatch.get(y)
        return origin is not None and place == Value(origin, 1) and self._of_rows(weights)

    def _by_row(self, position: int) -> tuple[int, ...] | None:
        node = self.graph.nodes[position]
        if not isinstance(node.op, _BY_ROW) or not self._keeps_rows(node):
            return None
        of_pairs = self.dispatch.get(Value(position)) is not None
        first = {kind.shape[0] for kind in node.types}
        if len(first) > 1 or (first != {ROWS} and not of_pairs):
            return None
        own = [i for i, v in enumerate(node.operands) if _names_rows(self.graph.type_of(v))]
        fits = all(self.graph.type_of(node.operands[i]).shape[0] in first for i in own)
        return tuple(own) if fits else None

    def _keeps_rows(self, node: Node) -> bool:
        """Return whether rows stay the first axis, and do not meet."""
        kinds = [self.graph.type_of(v) for v in node.operands]
        named = [kind for kind in (*kinds, *node.types) if _names_rows(kind)]
        return all(map(_is_first, (*named, *node.types))) and not mixed_tokens(
            node.op, kinds, node.types
        )

    def _of_rows(self, value: Value) -> bool:
        kind = self.graph.type_of(value)
        return _is_first(kind) and kind.shape[0] == ROWS

    def _is_row_major(self, value: Value) -> bool:
        return _is_first(self.graph.type_of(value))


def _names_rows(kind: TensorType) -> bool:
    return _ROWS_NAME in kind.names


def _is_first(kind: TensorType) -> bool:
    """Return whether the rows are the first axis and no other."""
    return [axis for axis, size in enumerate(kind.shape) if _ROWS_NAME in names_in(size)] == [0]
