"""Which values depend on the tokens, and which only on their positions."""

from collections.abc import Collection

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program


def dependent_values(graph: Graph, sources: Collection[Value]) -> frozenset[Value]:
    """Return every value that is computed from one of ``sources``, the sources included.

    Sizes are not values: reading the length of a tensor is no dependence on its elements.
    """
    found = set(sources)
    for position, node in enumerate(graph.nodes):
        if any(operand in found for operand in node.operands):
            found.update(Value(position, i) for i in range(len(node.types)))
    return frozenset(found)


def token_inputs(program: Program) -> dict[str, tuple[Value, ...]]:
    """Return, for each graph, its inputs that depend on an input of the entry.

    An input of a function depends on the tokens if it does in any call.
    """
    entry = program.main
    found: dict[str, set[Value]] = {graph.name: set() for graph in program.graphs}
    found[entry.name] = set(entry.inputs)
    pending = [entry]
    while pending:
        graph = pending.pop()
        dependent = dependent_values(graph, found[graph.name])
        for node in graph.nodes:
            if isinstance(node.op, Call):
                callee = program.by_name[node.op.callee]
                reached = {
                    formal
                    for formal, actual in zip(callee.inputs, node.operands, strict=True)
                    if actual in dependent
                }
                if not reached <= found[callee.name]:
                    found[callee.name] |= reached
                    pending.append(callee)
    return {name: tuple(sorted(values)) for name, values in found.items()}
