"""Copy a graph node by node while something changes: the loop that most passes share."""

from collections.abc import Callable

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value

Emit = Callable[[GraphBuilder, int, Node, tuple[Value, ...]], tuple[Value, ...] | None]
"""``emit(builder, position, node, moved operands)``: the results, or None to copy the node."""


def rebuild(graph: Graph, emit: Emit) -> Graph:
    """Return the graph with each node replaced by what ``emit`` builds; outputs follow.

    New nodes have the location of the node they replace.
    """
    builder = GraphBuilder(graph.name)
    moved: dict[Value, Value] = {}
    for position, node in enumerate(graph.nodes):
        operands = tuple(moved[v] for v in node.operands)
        with builder.at(node.location):
            results = emit(builder, position, node, operands)
            if results is None:
                results = builder.add_multi(node.op, *operands)
        for i, result in enumerate(results):
            moved[Value(position, i)] = result
    return builder.build(*(moved[v] for v in graph.outputs))
