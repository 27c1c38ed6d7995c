"""Which values are the residual stream: what layers read by a norm and add their results to."""

from collections.abc import Iterator, Mapping

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import Add, Call, GatherRows, Input, Param, RmsNorm
from ascendfx.ir.program import Program

Stream = Mapping[str, frozenset[Value]]
"""Values of the residual stream, by graph."""

_SOURCES = (Add, Call, Input)


def stream_of(program: Program) -> Stream:
    """Return the residual stream of every graph.

    It begins where a norm reads a sum, an input, the result of a layer or rows of a table, and
    goes on through sums and calls, to both sides.
    """
    found = {graph.name: set(_seeds(graph)) for graph in program.graphs}
    growing = True
    while growing:
        growing = False
        for graph in program.graphs:
            for value, name in _neighbours(program, graph, found):
                if value not in found[name]:
                    found[name].add(value)
                    growing = True
    return {name: frozenset(values) for name, values in found.items()}


def is_table_row(graph: Graph, value: Value) -> bool:
    """Whether a value is rows of a parameter, such as embeddings."""
    node = graph.nodes[value.node]
    return isinstance(node.op, GatherRows) and isinstance(graph.op_of(node.operands[0]), Param)


def _seeds(graph: Graph) -> Iterator[Value]:
    for node in graph.nodes:
        if isinstance(node.op, RmsNorm) and _may_carry(graph, node.operands[0]):
            yield node.operands[0]


def _may_carry(graph: Graph, value: Value) -> bool:
    return isinstance(graph.op_of(value), _SOURCES) or is_table_row(graph, value)


def _neighbours(
    program: Program, graph: Graph, found: Mapping[str, set[Value]]
) -> Iterator[tuple[Value, str]]:
    """Yield values that are the stream because others are, with the graph they are in."""
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Add):
            yield from _of_sum(graph, position, found[graph.name])
        elif isinstance(node.op, Call):
            yield from _of_call(graph, position, program.by_name[node.op.callee], found)


def _of_sum(graph: Graph, position: int, own: set[Value]) -> Iterator[tuple[Value, str]]:
    operands = graph.nodes[position].operands
    if any(each in own for each in operands):
        yield Value(position), graph.name
    if Value(position) in own:
        yield from ((each, graph.name) for each in operands if _may_carry(graph, each))


def _of_call(
    graph: Graph, position: int, callee: Graph, found: Mapping[str, set[Value]]
) -> Iterator[tuple[Value, str]]:
    node = graph.nodes[position]
    results = [Value(position, i) for i in range(len(node.types))]
    given = zip((*node.operands, *results), (*callee.inputs, *callee.outputs), strict=True)
    for outside, inside in given:
        if outside in found[graph.name]:
            yield inside, callee.name
        if inside in found[callee.name]:
            yield outside, graph.name
