"""Keys and values of all heads that are linear maps of one vector per token."""

from collections.abc import Sequence

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import Cast, Linear, Reshape, Slice, Transpose

_MOVES = (Cast, Reshape, Slice, Transpose)


def projected_from_one(
    graph: Graph, query: Value, keys: Sequence[Value], values: Value
) -> frozenset[Value]:
    """Return what lies between that vector and the attention; nothing if there is no such vector.

    There is one if every query head has keys and values of its own and the values and some part of
    the keys are projections of it, with nothing but movement between. Then the projections can be
    absorbed: all heads attend to the vector itself, which is read once for all of them.

    Args:
        graph: The graph of one layer.
        query: A part of the queries, ``[rows, heads, d]``.
        keys: All parts of the keys, ``[rows, key heads, d]``.
        values: ``[rows, value heads, d]``.
    """
    of_values, between = _source_and_path(graph, values)
    if of_values is None or not _has_heads_of(graph, values, query):
        return frozenset()
    paths = [
        path
        for key in keys
        for source, path in (_source_and_path(graph, key),)
        if source == of_values and _has_heads_of(graph, key, query)
    ]
    return between.union(*paths) if paths else frozenset()


def _has_heads_of(graph: Graph, value: Value, query: Value) -> bool:
    return graph.type_of(value).shape[1] == graph.type_of(query).shape[1]


def _source_and_path(graph: Graph, value: Value) -> tuple[Value | None, frozenset[Value]]:
    """Return the operand of the projection that makes ``value``, and the values in between."""
    path: list[Value] = []
    while isinstance(graph.op_of(value), _MOVES):
        path.append(value)
        (value,) = graph.nodes[value.node].operands
    if not isinstance(graph.op_of(value), Linear):
        return None, frozenset()
    path.append(value)
    source = graph.nodes[value.node].operands[0]
    while isinstance(graph.op_of(source), Reshape):
        path.append(source)
        (source,) = graph.nodes[source.node].operands
    return source, frozenset(path)
