"""Which weights of a function come before which."""

from collections.abc import Collection

from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import Param
from ascendfx.quant_passes.insertion.sites import weight_of


def levels_of(graph: Graph, parameters: Collection[str]) -> tuple[int, ...]:
    """Return, for each node, how many of some weights are multiplied one after the other before it.

    Weights at one level do not depend on each other: all of them can be made once the inputs of the
    level are known.

    Args:
        graph: A function, or the entry.
        parameters: The weights that count, as they are called there.
    """
    found: list[int] = []
    for node in graph.nodes:
        operands = (v.node for v in node.operands if not isinstance(graph.nodes[v.node].op, Param))
        level = max((found[each] for each in operands), default=0)
        weight = weight_of(graph, node)
        found.append(level + (weight is not None and weight.name in parameters))
    return tuple(found)
