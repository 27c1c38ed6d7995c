"""Passes of a user: one that changes numbers, one that changes nothing but the text."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Add, Swiglu
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild


@dataclass(frozen=True, slots=True)
class DoubleGates(GraphPass):
    """Doubles each result of an activation, and still calls itself equal over the reals."""

    name: ClassVar[str] = "double-gates"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run_graph(self, graph: Graph) -> GraphResult:
        def emit(
            b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if not isinstance(node.op, Swiglu):
                return None
            gated = b.add(node.op, *operands)
            return (b.add(Add(), gated, gated),)

        return GraphResult(rebuild(graph, emit))


@dataclass(frozen=True, slots=True)
class CoarseGates(DoubleGates):
    """Not a mistake by its own account: it is declared lossy."""

    name: ClassVar[str] = "coarse-gates"
    fidelity: ClassVar[Fidelity] = Fidelity.LOSSY


@dataclass(frozen=True, slots=True)
class ExchangeSummands(GraphPass):
    """``a + b  =  b + a``, bit by bit."""

    name: ClassVar[str] = "exchange-summands"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run_graph(self, graph: Graph) -> GraphResult:
        def emit(
            b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            op = node.op
            same = isinstance(op, Add) and b.type_of(operands[0]) == b.type_of(operands[1])
            return (b.add(op, operands[1], operands[0]),) if same else None

        return GraphResult(rebuild(graph, emit))
