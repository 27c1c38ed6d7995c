"""Additions that the kernel before them makes on the way out."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Add, CombineExperts

_MOST = 2
"""Rows `combine_experts` can add: shared experts and residual."""


@dataclass(frozen=True, slots=True)
class AddedRows:
    """What a kernel adds to its result.

    Attributes:
        rows: The added values, in the order of addition.
        covers: Positions of the `Add` nodes, in order.
    """

    rows: tuple[Value, ...] = ()
    covers: tuple[int, ...] = ()


def absorb_additions(context: GraphContext) -> dict[int, AddedRows]:
    """Return the additions each `combine_experts` takes over, by its position.

    An addition qualifies if it is the only reader of the sum and the other operand has the same
    type and is dense. The sums then stay in f32 until the one rounding at the end.
    """
    return {
        position: _additions(context, position)
        for position, node in enumerate(context.graph.nodes)
        if isinstance(node.op, CombineExperts)
    }


def _additions(context: GraphContext, position: int) -> AddedRows:
    graph = context.graph
    rows: list[Value] = []
    covers: list[int] = []
    while len(rows) < _MOST:
        current = Value(covers[-1] if covers else position)
        users = graph.uses.get(current, ())
        read_once = len(users) == 1 and current not in graph.outputs
        if not read_once or not isinstance(graph.nodes[users[0]].op, Add):
            break
        left, right = graph.nodes[users[0]].operands
        other = right if left == current else left
        same = graph.type_of(other) == graph.type_of(current)
        if not same or not context.is_dense(context.view(other)) or context.is_paged(other):
            break
        rows.append(other)
        covers.append(users[0])
    return AddedRows(tuple(rows), tuple(covers))
