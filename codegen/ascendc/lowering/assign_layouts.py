"""Choose how a constant lies in memory: fractals where only the cube unit reads it."""

from collections.abc import Mapping

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import GroupedLinear, HeadLinear, Linear

_WEIGHT_OPERAND: Mapping[type[Op], int] = {Linear: 1, HeadLinear: 1, GroupedLinear: 1}


def assign_layouts(graph: Graph, constants: frozenset[int]) -> dict[Value, str]:
    """Return ``nz`` for every constant that is nothing but the weight of products.

    A fractal weight reaches L1 in one contiguous copy; rows of an ``nd`` weight are copied one by
    one. A weight that a lookup reads, too (tied embeddings), stays ``nd``, so that it is stored
    once.
    """
    layouts: dict[Value, str] = {}
    for value, users in graph.uses.items():
        if value.node in constants and value not in graph.outputs:
            products = (_is_weight_of(graph, value, user) for user in users)
            layouts[value] = "nz" if all(products) else "nd"
    return layouts


def _is_weight_of(graph: Graph, value: Value, user: int) -> bool:
    node = graph.nodes[user]
    place = _WEIGHT_OPERAND.get(type(node.op))
    return place is not None and node.operands.index(value) == place
