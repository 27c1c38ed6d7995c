"""Specialise a serving program to steps that hold rows of one request."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass


@dataclass(frozen=True, slots=True)
class SingleRequest(ProgramPass):
    """Sets the size ``requests`` to one, as in a prefill step."""

    name: ClassVar[str] = "single-request"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run(self, program: Program) -> PassResult:
        """Substitute in every graph."""
        graphs = tuple(map(_specialise, program.graphs))
        return PassResult(Program(graphs, program.recipes), {"graphs": len(graphs)})


def _specialise(graph: Graph) -> Graph:
    builder = GraphBuilder(graph.name)
    moved: dict[Value, Value] = {}
    for position, node in enumerate(graph.nodes):
        with builder.at(node.location):
            op = node.op.substitute({"requests": 1})
            results = builder.add_multi(op, *(moved[v] for v in node.operands))
        moved.update((Value(position, i), result) for i, result in enumerate(results))
    return builder.build(*(moved[v] for v in graph.outputs))
