"""Passes that are right in float64 and leave the range of the model's format are found."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Node, Value
from ascendfx.ir.ops import Constant, Linear, Multiply
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rebuild import rebuild
from tests.dumps.verified_passes import rewrite


@dataclass(frozen=True, slots=True)
class Detour(ProgramPass):
    """Multiplies results of `Linear` by powers of two whose product is one."""

    name: ClassVar[str] = "detour"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    powers: tuple[int, ...]

    def run(self, program: Program) -> PassResult:
        def emit(
            b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if not isinstance(node.op, Linear):
                return None
            y = b.add(node.op, *operands)
            for power in self.powers:
                y = b.add(Multiply(), y, b.add(Constant(2.0**power, node.types[0].dtype)))
            return (y,)

        graphs = tuple(rebuild(graph, emit) for graph in program.graphs)
        return PassResult(Program(graphs, program.recipes))


@dataclass(frozen=True, slots=True)
class ExactDetour(Detour):
    """Promises the same bits."""

    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE


@pytest.mark.parametrize("detour", [Detour, ExactDetour])
@pytest.mark.parametrize(
    ("powers", "told"),
    [
        ((127, 127, -127, -127), "a value overflows f32: its largest element is"),
        ((-100, -100, 100, 100), "a value vanishes in f32: its largest element is"),
        ((127, -127), "a value overflows f32"),  # the largest ones alone
        ((-127, 127), "a value vanishes in f32"),  # digits of most elements
    ],
)
def test_a_detour_out_of_the_range_is_found(
    powers: tuple[int, ...], told: str, detour: type[Detour]
) -> None:
    with pytest.raises(GraphError, match="fidelity-broken") as caught:
        rewrite("v2_f32", [detour(powers)])
    assert told in caught.value.reason
    assert "multiply" in caught.value.excerpt


@dataclass(frozen=True, slots=True)
class LossyDetour(Detour):
    """Promises nothing, so that others are given what it made."""

    fidelity: ClassVar[Fidelity] = Fidelity.LOSSY


def test_what_the_program_before_did_is_no_mistake_of_the_pass() -> None:
    passes = [LossyDetour((127, 127, -127, -127)), Detour((1, -1))]
    assert not [check.broken for check in rewrite("v2_f32", passes).checks if check.broken]


@pytest.mark.parametrize("detour", [Detour, ExactDetour])
def test_a_detour_within_the_range_is_none(detour: type[Detour]) -> None:
    (check,) = rewrite("v2_f32", [detour((60, -120, 60))]).checks
    assert not check.broken
