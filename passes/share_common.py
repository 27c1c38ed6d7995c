"""Compute equal things once."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild


@dataclass(frozen=True, slots=True)
class ShareCommon(GraphPass):
    """Common subexpression elimination; every operation is pure, so all of them qualify."""

    name: ClassVar[str] = "share-common"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run_graph(self, graph: Graph) -> GraphResult:
        """Replace a node by an earlier equal one."""
        seen: dict[tuple[Op, tuple[Value, ...]], tuple[Value, ...]] = {}
        shared = 0

        def emit(
            builder: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...]:
            nonlocal shared
            key = (node.op, operands)
            if key in seen:
                shared += 1
            else:
                seen[key] = builder.add_multi(node.op, *operands)
            return seen[key]

        after = rebuild(graph, emit)
        return GraphResult(after, {"nodes shared": shared}) if shared else GraphResult(graph)
