"""Values that are not there, or are made later, are found in graphs and recipes."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.verify import verify_program, verify_values
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.pipeline import run_pipeline
from tests.ir.whole_program import GOOD
from tests.strategies.graphs import graphs

INDICES = st.builds(Value, st.integers(-2, 30), st.integers(-2, 3))


def replaced(graph: Graph, place: int | None, operand: int, value: Value) -> Graph:
    """Return the graph with one operand of the node at ``place``, or one output, replaced."""
    if place is None:
        return replace(graph, outputs=swapped(graph.outputs, operand, value))
    node = graph.nodes[place]
    changed = replace(node, operands=swapped(node.operands, operand, value))
    return replace(graph, nodes=(*graph.nodes[:place], changed, *graph.nodes[place + 1 :]))


def swapped(values: tuple[Value, ...], place: int, value: Value) -> tuple[Value, ...]:
    return (*values[:place], value, *values[place + 1 :])


@settings(max_examples=300)
@given(data=st.data(), value=INDICES)
def test_exactly_the_values_that_exist_before_their_reader_pass(
    data: st.DataObject, value: Value
) -> None:
    graph = data.draw(graphs())
    readers = [i for i, node in enumerate(graph.nodes) if node.operands]
    place = data.draw(st.sampled_from([None, *readers]))
    values = graph.outputs if place is None else graph.nodes[place].operands
    operand = data.draw(st.integers(0, len(values) - 1))
    made = [
        Value(i, r) for i, node in enumerate(graph.nodes[:place]) for r in range(len(node.types))
    ]
    program = Program((replaced(graph, place, operand, value),))
    if value in made:
        verify_values(program)
        return
    with pytest.raises(GraphError) as caught:
        verify_values(program, made_by="pass `x`")
    assert caught.value.code == "value-index"
    assert caught.value.reason.startswith(
        f"pass `x`: {'' if place is None else 'in '}@{graph.name}"
    )
    assert f"({value.node}, {value.result})" in caught.value.reason
    assert caught.value.hint


@pytest.mark.parametrize("value", [Value(1), Value(2), Value(0, 1), Value(-1)])
def test_recipes_are_checked(value: Value) -> None:
    program = parse_program(GOOD)
    ((key, recipe),) = program.recipes.items()
    wrong = Program(program.graphs, {key: replaced(recipe, 1, 0, value)})
    with pytest.raises(GraphError, match="in recipe @f `w#1`, node %1 reads "):
        verify_program(wrong)


@dataclass(frozen=True, slots=True)
class WrongOutput(GraphPass):
    """A pass with a bug: it returns a node that is not there."""

    name: ClassVar[str] = "wrong-output"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run_graph(self, graph: Graph) -> GraphResult:
        return GraphResult(replace(graph, outputs=(Value(99),)))


def test_a_pass_that_returns_no_value_is_named() -> None:
    with pytest.raises(GraphError) as caught:
        run_pipeline(parse_program(GOOD), [WrongOutput()])
    assert caught.value.code == "value-index"
    assert caught.value.reason == (
        "pass `wrong-output`: @main returns (99, 0), the graph has 2 nodes"
    )
