"""Pass one half to a function where every caller passes the same half twice."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Call, Concat, Input
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rebuild import rebuild


@dataclass(frozen=True, slots=True)
class NarrowRepeatedInputs(ProgramPass):
    """Rotary tables of full width hold every angle twice; a layer needs them once.

    An input of a function for which every call passes ``concat h, h`` along one axis takes ``h``
    instead, and joins the two halves inside. That both halves are equal is thereby known inside.
    Expects `Simplify`, which moves such joins towards the calls.
    """

    name: ClassVar[str] = "narrow-repeated-inputs"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run(self, program: Program) -> PassResult:
        """Narrow every such input; repeated until none is left, as functions call functions."""
        first, count = program, 0
        while found := _repeated_inputs(program):
            count += len(found)
            program = Program(
                tuple(_rewrite(graph, found) for graph in program.graphs), program.recipes
            )
        if program is first:
            return PassResult(program)
        return PassResult(program, {"inputs narrowed": count})


_Found = dict[tuple[str, int], tuple[int, TensorType]]
"""Function and place of the input: the joined axis and the type of the half."""


def _repeated_inputs(program: Program) -> _Found:
    candidates: dict[tuple[str, int], tuple[int, TensorType] | None] = {}
    for graph in program.graphs:
        for node in graph.nodes:
            if not isinstance(node.op, Call):
                continue
            for i, operand in enumerate(node.operands):
                half = _half_of(graph, operand)
                known = candidates.setdefault((node.op.callee, i), half)
                if known != half:
                    candidates[node.op.callee, i] = None
    return {place: half for place, half in candidates.items() if half is not None}


def _half_of(graph: Graph, value: Value) -> tuple[int, TensorType] | None:
    node = graph.nodes[value.node]
    if isinstance(node.op, Concat) and len(node.operands) == 2 and len(set(node.operands)) == 1:
        return node.op.axis, graph.type_of(node.operands[0])
    return None


def _rewrite(graph: Graph, found: _Found) -> Graph:
    places = {value.node: i for i, value in enumerate(graph.inputs)}

    def emit(
        builder: GraphBuilder, position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        match node.op:
            case Input() if (graph.name, places[position]) in found:
                axis, kind = found[graph.name, places[position]]
                half = builder.add(replace(node.op, type=kind))
                return (builder.add(Concat(axis), half, half),)
            case Call(callee=callee):
                passed = (
                    builder.operands_of(operand)[0] if (callee, i) in found else operand
                    for i, operand in enumerate(operands)
                )
                return builder.add_multi(node.op, *passed)
            case _:
                return None

    return rebuild(graph, emit)
