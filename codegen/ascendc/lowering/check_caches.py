"""Caches are written in place: nobody may use what they held before."""

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import CacheWrite, Call
from ascendfx.ir.program import Program
from ascendfx.ir.text.printer import print_node


def check_caches(program: Program) -> None:
    """Check that no cache is used in its old state after a write, or a call, replaced it.

    Raises:
        GraphError: A cache has another reader beside the node that overwrites it.
    """
    for graph in program.graphs:
        for position, node in enumerate(graph.nodes):
            for cache in overwritten(program, node):
                if graph.use_count(cache) != 1:
                    raise GraphError(
                        code="cache-read-after-write",
                        reason="a cache is written in place, but its old contents are used, too",
                        location=node.location,
                        excerpt=print_node(graph, position),
                        hint="read the new cache that this node returns",
                    )


def overwritten(program: Program, node: Node) -> tuple[Value, ...]:
    """Return the operands whose memory a node overwrites."""
    if isinstance(node.op, CacheWrite):
        return node.operands[:1]
    if not isinstance(node.op, Call):
        return ()
    body = program.by_name[node.op.callee]
    changed = _overwritten_inputs(program, body)
    pairs = zip(body.inputs, node.operands, strict=True)
    return tuple(operand for formal, operand in pairs if formal in changed)


def _overwritten_inputs(program: Program, graph: Graph) -> frozenset[Value]:
    """Return the inputs whose memory a graph overwrites, through any number of writes."""
    found: set[Value] = set()
    for node in graph.nodes:
        for cache in overwritten(program, node):
            while isinstance(graph.op_of(cache), CacheWrite):
                cache = graph.nodes[cache.node].operands[0]  # noqa: PLW2901  # follow the writes
            found.add(cache)
    return frozenset(found)
