"""Find out which values own memory and which only look at the memory of another value."""

from collections.abc import Mapping
from dataclasses import dataclass

from ascendfx.codegen.ascendc.lowering.view import (
    CapacityOf,
    View,
    dense_view,
    expand_view,
    reshape_view,
    slice_view,
    storage_dtype,
    transpose_view,
)
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import (
    CacheWrite,
    Cast,
    Concat,
    Expand,
    GroupedLinear,
    HeadLinear,
    Linear,
    Reshape,
    Slice,
    Transpose,
)
from ascendfx.ir.size import simplify_size
from ascendfx.ir.tensor_type import DType

_INTEGERS = (DType.I32, DType.I64)
_STRIDED_PRODUCERS = (HeadLinear, GroupedLinear, Linear)
"""Operations whose kernels can write rows that are not adjacent; vector chains can, too."""


@dataclass(frozen=True, slots=True)
class ResolvedViews:
    """Where every value lies.

    Attributes:
        of: View of each value; two values with one root share memory.
        moved: Positions of view-like nodes whose elements must be copied all the same: joined
            tensors, and reshapes no strides can express.
    """

    of: Mapping[Value, View]
    moved: frozenset[int]

    def is_root(self, value: Value) -> bool:
        """Return whether the value owns its buffer."""
        return self.of[value].root == value


def resolve_views(
    graph: Graph, capacity: CapacityOf, writes_strided: frozenset[int] = frozenset()
) -> ResolvedViews:
    """Resolve reshape, slice, transpose, expand, integer casts and cache writes.

    A tensor that is only ever joined to others is written straight into the joined tensor, if
    its producer can write strided rows.

    Args:
        graph: One graph of the serving form.
        capacity: Largest value of each named size.
        writes_strided: Positions of nodes that become part of a vector chain.
    """
    plain = _resolve(graph, capacity, {})
    homes: dict[Value, View] = {}
    for position in reversed(range(len(graph.nodes))):
        node = graph.nodes[position]
        if isinstance(node.op, Concat):
            _find_homes(graph, position, plain, homes, (capacity, writes_strided))
    return _resolve(graph, capacity, homes) if homes else plain


def _resolve(graph: Graph, capacity: CapacityOf, homes: Mapping[Value, View]) -> ResolvedViews:
    of: dict[Value, View] = {}
    moved: set[int] = set()
    for position, node in enumerate(graph.nodes):
        view = _view_of(node, of, capacity)
        if view is not None:
            of[Value(position)] = view
            continue
        if isinstance(node.op, Concat | Reshape | Expand):
            moved.add(position)
        for i, kind in enumerate(node.types):
            value = Value(position, i)
            of[value] = homes.get(value) or dense_view(value, kind, capacity)
    return ResolvedViews(of, frozenset(moved))


def _view_of(node: Node, of: Mapping[Value, View], capacity: CapacityOf) -> View | None:
    """Return the view that a node is of its operand, or None if it makes new elements."""
    match node.op:
        case Reshape(shape=shape):
            return reshape_view(of[node.operands[0]], shape, capacity)
        case Slice(axis=axis, start=int(start), stop=stop, step=step):
            return slice_view(of[node.operands[0]], axis, start, stop, step)
        case Transpose(permutation=permutation):
            return transpose_view(of[node.operands[0]], permutation)
        case Expand(shape=shape):
            return expand_view(of[node.operands[0]], shape)
        case Cast(dtype=dtype):
            source = of[node.operands[0]]
            return source if storage_dtype(dtype) is source.dtype and dtype in _INTEGERS else None
        case CacheWrite():
            return of[node.operands[0]]
        case _:
            return None


def _find_homes(
    graph: Graph,
    position: int,
    views: ResolvedViews,
    homes: dict[Value, View],
    options: tuple[CapacityOf, frozenset[int]],
) -> None:
    """Give each operand of a join, where possible, a place inside the joined tensor."""
    capacity, writes_strided = options
    node = graph.nodes[position]
    joined = homes.get(Value(position)) or views.of[Value(position)]
    axis = node.op.axis if isinstance(node.op, Concat) else 0
    start = 0
    for operand in node.operands:
        length = graph.type_of(operand).shape[axis]
        if not isinstance(start, int):
            return
        stop = simplify_size(start + length)
        root = views.of[operand].root
        part = slice_view(joined, axis, start, stop, 1)
        start = stop
        strided = root.node in writes_strided or isinstance(graph.op_of(root), _STRIDED_PRODUCERS)
        home = reshape_view(part, graph.type_of(root).shape, capacity)
        if strided and home and _is_only_joined(graph, operand, views, position, capacity):
            homes[root] = home


def _is_only_joined(
    graph: Graph, operand: Value, views: ResolvedViews, position: int, capacity: CapacityOf
) -> bool:
    """Return whether ``operand`` is all of its buffer and nothing but this join looks at it."""
    view = views.of[operand]
    root = view.root
    if reshape_view(views.of[root], view.shape, capacity) != view:
        return False
    watched = [value for value, each in views.of.items() if each.root == root]
    joins = 0
    for value in watched:
        users = graph.uses.get(value, ())
        joins += users.count(position)
        looks = all(user == position or Value(user) in watched for user in users)
        if value in graph.outputs or not looks:
            return False
    return joins == 1
