"""What a value needs, and the part of a graph that makes it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.location import Location
from ascendfx.ir.ops import Add, Input, Negate, Topk
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.proof.random_tensors import random_tensors
from tests.strategies.graphs import graphs

X = Input("x", TensorType(DType.F32, (4,)))


@given(graphs(), st.data())
def test_needed_is_the_smallest_set_with_the_values_that_reads_nothing_outside(
    graph: Graph, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.integers(0, len(graph.nodes) - 1).map(Value)))
    needed = graph.needed(values)
    roots = {value.node for value in values}
    read = {operand.node for position in needed for operand in graph.nodes[position].operands}
    assert roots <= needed
    assert read <= needed
    assert needed <= roots | read  # with operands always before: no member is there for nothing


@given(graphs(), st.data())
def test_a_part_computes_its_outputs_and_nothing_else(graph: Graph, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, len(graph.nodes) - 1).map(Value))
    part = graph.part((chosen,))
    whole = Graph(graph.name, graph.nodes, (chosen,))
    tensors = random_tensors(Program((whole,)), seed=0, ids=1)
    np.testing.assert_array_equal(interpret(part, tensors)[0], interpret(whole, tensors)[0])
    assert part.needed(part.outputs) == frozenset(range(len(part.nodes)))
    assert len(part.nodes) == len(graph.needed((chosen,)))


@given(graphs())
def test_a_part_has_the_types_that_a_builder_infers(graph: Graph) -> None:
    part = graph.part(graph.outputs)
    builder = GraphBuilder(part.name)
    for node in part.nodes:
        builder.add_multi(node.op, *node.operands)
    assert builder.build(*part.outputs) == part


def test_a_part_keeps_what_it_is_told_and_where_its_nodes_come_from() -> None:
    builder = GraphBuilder("g")
    builder.add(Input("unread", X.type))
    x = builder.add(X)
    builder.add(Negate(), x)
    with builder.at(Location("model.py", 7)):
        total = builder.add(Add(), x, x)
    graph = builder.build(total)
    part = graph.part(graph.outputs, keep=graph.inputs)
    assert [node.op for node in part.nodes] == [Input("unread", X.type), X, Add()]
    assert part.nodes[2].location == Location("model.py", 7)


def test_a_part_reads_the_result_that_was_read() -> None:
    builder = GraphBuilder("g")
    builder.add(Input("unread", X.type))
    _, places = builder.add_multi(Topk(2), builder.add(X))
    part = builder.build(places).part((places,))
    assert part.outputs == (Value(1, 1),)


def test_a_builder_knows_what_a_value_needs_before_the_graph_is_built() -> None:
    builder = GraphBuilder("g")
    x = builder.add(X)
    builder.add(Negate(), x)
    assert builder.needed((builder.add(Add(), x, x),)) == {0, 2}
