"""Caches and control tensors are written in place: nobody may use later what they held before."""

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import CacheRead, Call, MoveEntries
from ascendfx.ir.program import Program
from ascendfx.ir.text.printer import print_node


def check_caches(program: Program) -> None:
    """Check that nothing is used in its old state after a write, or a call, replaced it.

    Nodes that read an operand and do not need the result of the node that overwrites it run before
    that node (`unit.order_units`). A call may overwrite its operand at any time, and attention
    reads a cache wherever it stands, so those share with no one; but entries are moved behind the
    attention to them, on which the path depends that they are moved along.

    Raises:
        GraphError: Memory has another reader beside the node that overwrites it.
    """
    for graph in program.graphs:
        for position, node in enumerate(graph.nodes):
            for value in overwritten(program, node):
                if _is_shared(graph, position, value):
                    raise GraphError(
                        code="cache-read-after-write",
                        reason="memory is written in place, but its old contents are used, too",
                        location=node.location,
                        excerpt=print_node(graph, position),
                        hint="read what this node returns instead, such as the new cache",
                    )


def _is_shared(graph: Graph, position: int, value: Value) -> bool:
    """Return whether what a node overwrites may be needed when it has done so."""
    users = graph.uses[value]
    others = [graph.nodes[user].op for user in users if user != position]
    if isinstance(graph.nodes[position].op, Call):
        return graph.use_count(value) != 1
    moves = isinstance(graph.nodes[position].op, MoveEntries)
    reads_late = not moves and any(isinstance(op, CacheRead) for op in others)
    return reads_late or users.count(position) != 1 or value in graph.outputs


def overwritten(program: Program, node: Node) -> tuple[Value, ...]:
    """Return the operands whose memory a node overwrites."""
    if node.op.in_place:
        return tuple(node.operands[i] for i in node.op.in_place.values())
    if not isinstance(node.op, Call):
        return ()
    body = program.by_name[node.op.callee]
    changed = overwritten_inputs(program, body)
    pairs = zip(body.inputs, node.operands, strict=True)
    return tuple(operand for formal, operand in pairs if formal in changed)


def overwritten_inputs(program: Program, graph: Graph) -> frozenset[Value]:
    """Return the inputs whose memory a graph overwrites, through any number of writes."""
    found: set[Value] = set()
    for node in graph.nodes:
        found.update(_first(graph, value) for value in overwritten(program, node))
    return frozenset(found)


def _first(graph: Graph, value: Value) -> Value:
    """Return the value that came in the memory of ``value``, before any write."""
    while value.result in graph.op_of(value).in_place:
        node = graph.nodes[value.node]
        value = node.operands[node.op.in_place[value.result]]
    return value
