"""Passes on captured models, each compared with the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import GraphBuilder, Node, Value
from ascendfx.ir.ops import Add, Constant, Multiply, Softmax
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.verification.verify_stages import StageVerifier
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.progress import silent
from ascendfx.runtime.rewriting import Rewriting
from ascendfx.runtime.start_verifier import token_ids
from tests.passes.captured_models import captured

_TOKENS = token_ids(None, 90)


def verifier(name: str) -> StageVerifier:
    program = captured(name)
    return StageVerifier(program, (), random_weights(program, 0), _TOKENS)


def rewrite(
    name: str, passes: Sequence[ProgramPass], writer: DumpWriter | None = None
) -> StageVerifier:
    found = verifier(name)
    Rewriting(writer, found, silent).run("serving", captured(name), passes)
    return found


@dataclass(frozen=True, slots=True)
class Thirds(ProgramPass):
    """Writes ``x`` as ``x/3 + x/3 + x/3``: equal over the reals, and in float64 not always."""

    name: ClassVar[str] = "thirds"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run(self, program: Program) -> PassResult:
        def emit(
            b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if not isinstance(node.op, Softmax):
                return None
            y = b.add(node.op, *operands)
            third = b.add(Multiply(), y, b.add(Constant(1 / 3, node.types[0].dtype)))
            return (b.add(Add(), b.add(Add(), third, third), third),)

        return PassResult(
            Program(tuple(rebuild(graph, emit) for graph in program.graphs), program.recipes)
        )
