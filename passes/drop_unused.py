"""Remove nodes whose results nobody reads."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult


@dataclass(frozen=True, slots=True)
class DropUnused(GraphPass):
    """Dead code elimination; inputs stay, because they are the signature of the graph."""

    name: ClassVar[str] = "drop-unused"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run_graph(self, graph: Graph) -> GraphResult:
        """Keep what the outputs need."""
        kept = graph.part(graph.outputs, keep=graph.inputs)
        dropped = len(graph.nodes) - len(kept.nodes)
        return GraphResult(kept, {"nodes dropped": dropped}) if dropped else GraphResult(graph)
