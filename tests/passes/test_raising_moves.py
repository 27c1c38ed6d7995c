"""Simplification and transpose hoisting keep every bit and reach a fixed point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Input, Param, Reshape, Transpose
from ascendfx.ir.program import Program
from ascendfx.ir.size import Dim, named_size, product
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import GraphPass
from ascendfx.passes.hoist_transposes import HoistTransposes
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.reshape_groups import AxisGroup, axis_groups
from ascendfx.passes.same_bits import same_bits
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.simplify import Simplify
from tests.passes.zero_model import zero_dropped
from tests.strategies.graphs import graphs

_PASSES = (DropUnused(), HoistTransposes(), ShareCommon(), Simplify())

every_pass = pytest.mark.parametrize("each", _PASSES, ids=lambda p: p.name)


def tensors_with_zeros(graph: Graph) -> dict[str, Array]:
    """Return random tensors, a third of whose numbers are zeros of either sign."""
    random = np.random.default_rng(0)
    return {
        name: np.where(random.random(x.shape) < 1 / 3, random.choice([0.0, -0.0], x.shape), x)
        for name, x in random_tensors(Program((graph,)), seed=0).items()
    }


@every_pass
@settings(max_examples=200)
@given(graph=graphs())
def test_every_bit_is_kept(each: GraphPass, graph: Graph) -> None:
    after = each.run_graph(graph).graph
    assert after.output_types == graph.output_types
    assert after.input_types == graph.input_types
    tensors = tensors_with_zeros(graph)
    for x, y in zip(interpret(graph, tensors), interpret(after, tensors), strict=True):
        assert x.shape == y.shape
        assert np.all(same_bits(x, y))


def test_the_test_of_bits_finds_a_wrong_sign_of_a_zero() -> None:
    with pytest.raises(AssertionError):
        test_every_bit_is_kept(zero_dropped())


@every_pass
@settings(max_examples=100)
@given(graph=graphs())
def test_a_second_run_returns_the_same_object(each: GraphPass, graph: Graph) -> None:
    once = each.run_graph(graph).graph
    again = each.run_graph(once)
    assert again.graph is once
    assert not again.statistics


@settings(max_examples=100)
@given(graph=graphs())
def test_nothing_gets_longer_by_simplification(graph: Graph) -> None:
    def moves(of: Graph) -> int:
        dead_free = DropUnused().run_graph(ShareCommon().run_graph(of).graph).graph
        return sum(isinstance(node.op, Transpose | Reshape) for node in dead_free.nodes)

    assert moves(Simplify().run_graph(graph).graph) <= moves(graph)


_SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, named_size("t")]), max_size=5).map(tuple)


@given(_SHAPES, st.integers(0, 4))
def test_axis_groups_cover_both_shapes_with_equal_products(
    before: tuple[Dim, ...], cut: int
) -> None:
    after = (*before[:cut], product(before[cut : cut + 2]), *before[cut + 2 :])
    groups = axis_groups(before, after)
    assert [i for g in groups for i in g.before] == list(range(len(before)))
    assert [j for g in groups for j in g.after] == list(range(len(after)))
    for group in groups:
        ours, theirs = (before[i] for i in group.before), (after[j] for j in group.after)
        assert product(ours) == product(theirs)


def test_axes_of_size_one_are_groups_of_their_own() -> None:
    assert axis_groups((2, 1, 3), (2, 3)) == (
        AxisGroup((0,), (0,)),
        AxisGroup((1,), ()),
        AxisGroup((2,), (1,)),
    )
    assert axis_groups((2, 3), (1, 6)) == (AxisGroup((), (0,)), AxisGroup((0, 1), (1,)))


def test_a_transpose_that_cannot_pass_stays_in_front_of_its_reader() -> None:
    builder = GraphBuilder("weights")
    weight = builder.add(Param("w", TensorType(DType.F32, (3, 4))))
    x = builder.add(Input("x", TensorType(DType.F32, (2, 3))))
    turned = builder.add(Transpose((1, 0)), weight)
    graph = builder.build(turned, Value(x.node))
    assert HoistTransposes().run_graph(graph).graph is graph
