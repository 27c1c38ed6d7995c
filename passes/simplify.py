"""Remove operations that only rename, and bring what remains into one form."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.simplifications import SIMPLIFICATIONS


@dataclass(frozen=True, slots=True)
class Simplify(GraphPass):
    """Local simplifications to a fixed point, with equal nodes shared and dead ones dropped.

    Attributes:
        max_rounds: Rounds after which the simplifications are considered cyclic.
    """

    name: ClassVar[str] = "simplify"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    max_rounds: int = 50

    def run_graph(self, graph: Graph) -> GraphResult:
        """Simplify until nothing changes.

        Raises:
            AssertionError: ``max_rounds`` were not enough; two simplifications undo each other.
        """
        first, count = graph, 0
        for _ in range(self.max_rounds):
            before = graph
            graph, changed = _round(graph)
            count += changed
            graph = DropUnused().run_graph(ShareCommon().run_graph(graph).graph).graph
            if graph == before:
                same = before == first
                return GraphResult(first) if same else GraphResult(graph, {"simplified": count})
        raise AssertionError(f"no fixed point after {self.max_rounds} rounds")


def _round(graph: Graph) -> tuple[Graph, int]:
    count = 0

    def emit(
        builder: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        nonlocal count
        for simplification in SIMPLIFICATIONS.get(type(node.op), ()):
            result = simplification(builder, node.op, operands)
            if result is not None:
                count += 1
                return (result,)
        return None

    return rebuild(graph, emit), count
