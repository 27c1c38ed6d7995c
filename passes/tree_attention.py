"""Let the attentions of a step see the nodes of a draft tree instead of all rows before theirs."""

from dataclasses import replace

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Call, Input, RaggedAttention
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType


def see_ancestors(program: Program, name: str, kind: TensorType) -> Program:
    """Return a program in serving form whose attentions have ``ancestors``, see `RaggedAttention`.

    Args:
        program: Every attention in it, and in what it calls, is one of rows of the step.
        name: Of the new last input of each graph that attends.
        kind: Its type.
    """
    attends = {graph.name for graph in program.graphs if _has_attention(graph)}
    while more := {g.name for g in program.graphs if _calls(g) & attends} - attends:
        attends |= more
    graphs = tuple(
        _with_ancestors(graph, Input(name, kind), attends) if graph.name in attends else graph
        for graph in program.graphs
    )
    return Program(graphs, program.recipes)


def _has_attention(graph: Graph) -> bool:
    return any(isinstance(node.op, RaggedAttention) for node in graph.nodes)


def _calls(graph: Graph) -> set[str]:
    return {node.op.callee for node in graph.nodes if isinstance(node.op, Call)}


def _with_ancestors(graph: Graph, ancestors: Input, attends: set[str]) -> Graph:
    builder = GraphBuilder(graph.name)
    last = max((value.node for value in graph.inputs), default=-1)
    moved: dict[Value, Value] = {}
    seen: tuple[Value, ...] = ()
    for position, node in enumerate(graph.nodes):
        if position == last + 1:
            seen = (builder.add(ancestors),)
        with builder.at(node.location):
            operands = tuple(moved[v] for v in node.operands)
            op, more = _seeing(node, attends)
            results = builder.add_multi(op, *operands, *(seen if more else ()))
        moved.update((Value(position, i), result) for i, result in enumerate(results))
    return builder.build(*(moved[v] for v in graph.outputs))


def _seeing(node: Node, attends: set[str]) -> tuple[Op, bool]:
    """Return the operation in a tree, and whether it has one operand more."""
    match node.op:
        case RaggedAttention(tree=False):
            return replace(node.op, tree=True), True
        case Call(callee=callee) if callee in attends:
            return node.op, True
        case op:
            return op, False
