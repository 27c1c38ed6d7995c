"""Find out which values own memory and which only look at the memory of another value."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ascendfx.codegen.ascendc.hardware_units import MAX_ROW_STRIDE
from ascendfx.codegen.ascendc.lowering.view import (
    CapacityOf,
    View,
    capacities,
    dense_view,
    expand_view,
    reshape_view,
    slice_view,
    storage_dtype,
    transpose_view,
)
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import (
    Cast,
    Concat,
    Expand,
    GroupedLinear,
    HeadLinear,
    Linear,
    RaggedAttention,
    Reshape,
    Slice,
    Transpose,
)
from ascendfx.ir.size import Dim, simplify_size
from ascendfx.ir.tensor_type import DType

_INTEGERS = (DType.I32, DType.I64)
_STRIDED_PRODUCERS = (HeadLinear, GroupedLinear, Linear)
"""Operations whose kernels can write rows that are not adjacent."""


@dataclass(frozen=True, slots=True)
class ResolvedViews:
    """Where every value lies.

    Attributes:
        of: View of each value; two values with one root share memory.
        joined_in_place: Positions of joins whose operands are written where they belong.
    """

    of: Mapping[Value, View]
    joined_in_place: frozenset[int]

    def is_root(self, value: Value) -> bool:
        """Return whether the value owns its buffer."""
        return self.of[value].root == value


def resolve_views(
    graph: Graph,
    capacity: CapacityOf,
    *,
    constants: frozenset[int] = frozenset(),
) -> ResolvedViews:
    """Resolve reshape, slice, transpose, expand, integer casts and what is overwritten.

    Products that are only ever joined are written straight into the joined tensor; any other join
    is part of a vector chain.

    Args:
        graph: One graph of the serving form.
        capacity: Largest value of each named size.
        constants: Positions of nodes the weight program computes; each is a tensor of its own.
    """
    plain = _resolve(graph, capacity, constants, {})
    homes = _by_head(graph, plain, capacity)
    joined: set[int] = set()
    for position in reversed(range(len(graph.nodes))):
        if isinstance(graph.nodes[position].op, Concat) and position not in constants:
            found = _find_homes(graph, position, plain, homes, capacity)
            homes |= found
            joined |= {position} if found else set()
    of = _resolve(graph, capacity, constants, homes) if homes else plain
    return ResolvedViews(of, frozenset(joined))


def _resolve(
    graph: Graph, capacity: CapacityOf, constants: frozenset[int], homes: Mapping[Value, View]
) -> dict[Value, View]:
    of: dict[Value, View] = {}
    for position, node in enumerate(graph.nodes):
        view = None if position in constants else _view_of(node, of, capacity)
        if view is not None:
            of[Value(position)] = view
            continue
        overwritten = {} if position in constants else node.op.in_place
        for i, kind in enumerate(node.types):
            value = Value(position, i)
            if i in overwritten:
                of[value] = of[node.operands[overwritten[i]]]
            else:
                of[value] = homes.get(value) or dense_view(value, kind, capacity)
    return of


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
        case _:
            return None


def _by_head(graph: Graph, views: Mapping[Value, View], capacity: CapacityOf) -> dict[Value, View]:
    """Store wide attention results head by head, if only products per head read them.

    Rows of all heads together are too far apart for the copy to L1.
    """
    homes: dict[Value, View] = {}
    for position, node in enumerate(graph.nodes):
        value = Value(position)
        users = [graph.op_of(Value(user)) for user in graph.uses.get(value, ())]
        if not isinstance(node.op, RaggedAttention) or value in graph.outputs:
            continue
        if views[value].strides[0] > MAX_ROW_STRIDE and all(
            isinstance(op, HeadLinear) for op in users
        ):
            rows, _, columns = capacities(node.types[0].shape, capacity)
            homes[value] = replace(views[value], strides=(columns, rows * columns, 1))
    return homes


def _find_homes(
    graph: Graph,
    position: int,
    views: Mapping[Value, View],
    homes: Mapping[Value, View],
    capacity: CapacityOf,
) -> dict[Value, View]:
    """Return a place inside the joined tensor for each operand of a join, if all can have one."""
    node = graph.nodes[position]
    joined = homes.get(Value(position)) or views[Value(position)]
    axis = node.op.axis if isinstance(node.op, Concat) else 0
    found: dict[Value, View] = {}
    start: Dim = 0
    for operand in node.operands:
        stop = simplify_size(start + graph.type_of(operand).shape[axis])
        root = views[operand].root
        if not isinstance(start, int) or not isinstance(graph.op_of(root), _STRIDED_PRODUCERS):
            return {}
        part = slice_view(joined, axis, start, stop, 1)
        home = reshape_view(part, graph.type_of(root).shape, capacity)
        if home is None or not _is_only_joined(graph, operand, views, position, capacity):
            return {}
        found[root] = home
        start = stop
    return found


def _is_only_joined(
    graph: Graph,
    operand: Value,
    views: Mapping[Value, View],
    position: int,
    capacity: CapacityOf,
) -> bool:
    """Return whether ``operand`` is all of its buffer and nothing but this join looks at it."""
    view = views[operand]
    root = view.root
    if reshape_view(views[root], view.shape, capacity) != view:
        return False
    watched = [value for value, each in views.items() if each.root == root]
    joins = 0
    for value in watched:
        users = graph.uses.get(value, ())
        joins += users.count(position)
        looks = all(user == position or Value(user) in watched for user in users)
        if value in graph.outputs or not looks:
            return False
    return joins == 1
