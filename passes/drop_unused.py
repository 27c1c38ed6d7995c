"""Remove nodes whose results nobody reads."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.ops.input import Input
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import copy_nodes


@dataclass(frozen=True, slots=True)
class DropUnused(GraphPass):
    """Dead code elimination; inputs stay, because they are the signature of the graph."""

    name: ClassVar[str] = "drop-unused"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run_graph(self, graph: Graph) -> GraphResult:
        """Keep what the outputs need."""
        live = {value.node for value in graph.outputs}
        for position in reversed(range(len(graph.nodes))):
            node = graph.nodes[position]
            if isinstance(node.op, Input):
                live.add(position)
            if position in live:
                live.update(value.node for value in node.operands)
        dropped = len(graph.nodes) - len(live)
        if not dropped:
            return GraphResult(graph)
        builder = GraphBuilder(graph.name)
        moved = copy_nodes(builder, graph, {}, frozenset(live))
        kept = builder.build(*(moved[v] for v in graph.outputs))
        return GraphResult(kept, {"nodes dropped": dropped})
