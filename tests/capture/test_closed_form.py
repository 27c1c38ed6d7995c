"""Closed forms are what the nodes compute, and writing them out changes no bit."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.capture.closed_form import closed_forms
from ascendfx.ir.capture.simplify_positions import simplify_positions
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import (
    Add,
    Cast,
    Concat,
    Constant,
    CumulativeSum,
    Equal,
    Expand,
    GatherRows,
    GreaterEqual,
    Input,
    Iota,
    LessEqual,
    LogicalAnd,
    LogicalNot,
    Multiply,
    NotEqual,
    Reshape,
    Select,
    Slice,
    Subtract,
    TakeAlong,
    Transpose,
)
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType


@st.composite
def integer_graphs(draw: st.DrawFn) -> Graph:
    """Random chains of the operations that models compute positions and masks with."""
    b = GraphBuilder("positions")
    values = [b.add(Iota(draw(st.integers(1, 4)), DType.I64, draw(st.integers(-2, 2))))]
    for _ in range(draw(st.integers(1, 8))):
        value = draw(st.sampled_from(values))
        made = _step(draw, b, value)
        values.append(made)
    return b.build(*values)


def _step(draw: st.DrawFn, b: GraphBuilder, value: Value) -> Value:
    type_ = b.type_of(value)
    if type_.dtype is DType.BOOL:
        chosen = draw(st.sampled_from([value, b.add(LogicalNot(), value)]))
        return b.add(Cast(DType.I64), chosen)
    place = _Place(
        value,
        tuple(int(size) for size in type_.shape),
        draw(st.integers(0, type_.rank - 1)),
        b.add(Constant(draw(st.integers(-2, 3)), DType.I64)),
    )
    return draw(st.sampled_from(STEPS))(draw, b, place)


@dataclass(frozen=True)
class _Place:
    value: Value
    shape: tuple[int, ...]
    axis: int
    number: Value

    @property
    def size(self) -> int:
        return self.shape[self.axis]


def _slice(draw: st.DrawFn, b: GraphBuilder, p: _Place) -> Value:
    start = draw(st.integers(0, p.size - 1))
    return b.add(Slice(p.axis, start, p.size, draw(st.integers(1, 2))), p.value)


def _continue_in_front(_draw: st.DrawFn, b: GraphBuilder, p: _Place) -> Value:
    first = b.add(Slice(p.axis, 0, 1), p.value)
    return b.add(Concat(p.axis), b.add(Subtract(), first, p.number), p.value)


def _compare(draw: st.DrawFn, b: GraphBuilder, p: _Place) -> Value:
    op = draw(st.sampled_from([Equal(), NotEqual(), LessEqual(), GreaterEqual()]))
    return b.add(op, p.value, draw(st.sampled_from([p.number, p.value])))


def _gather(draw: st.DrawFn, b: GraphBuilder, p: _Place) -> Value:
    rows = b.add(Iota(draw(st.integers(1, p.shape[0])), DType.I64))
    return b.add(GatherRows(), p.value, rows)


def _reverse(_draw: st.DrawFn, b: GraphBuilder, p: _Place) -> Value:
    line = tuple(size if i == p.axis else 1 for i, size in enumerate(p.shape))
    ids = b.add(Reshape(line), b.add(Iota(p.size, DType.I64, p.size - 1, -1)))
    return b.add(TakeAlong(p.axis), p.value, b.add(Expand(p.shape), ids))


STEPS: tuple[Callable[[st.DrawFn, GraphBuilder, _Place], Value], ...] = (
    lambda _, b, p: b.add(Add(), p.value, p.number),
    lambda _, b, p: b.add(Multiply(), p.number, p.value),
    lambda _, b, p: b.add(Reshape((*p.shape[: p.axis], 1, *p.shape[p.axis :])), p.value),
    lambda draw, b, p: b.add(Expand((draw(st.integers(1, 3)), *p.shape)), p.value),
    lambda _, b, p: b.add(CumulativeSum(p.axis), p.value),
    lambda draw, b, p: b.add(Transpose(tuple(draw(st.permutations(range(len(p.shape)))))), p.value),
    lambda _, b, p: b.add(Reshape((math.prod(p.shape),)), p.value),
    _slice,
    _continue_in_front,
    _compare,
    _gather,
    _reverse,
)


@given(integer_graphs())
def test_a_closed_form_is_what_the_node_computes(graph: Graph) -> None:
    results = interpret(graph, {})
    for value, result in zip(graph.outputs, results, strict=True):
        form = closed_forms(graph)[value.node]
        if form is not None:
            expected = np.full(result.shape, form.offset)
            for slope, places in zip(form.slopes, np.indices(result.shape), strict=True):
                expected = expected + slope * places
            np.testing.assert_array_equal(result.astype(np.int64), expected)


@given(integer_graphs())
def test_simplified_graphs_compute_the_same_bits_and_types(graph: Graph) -> None:
    after = simplify_positions(graph)
    assert after.output_types == graph.output_types
    for old, new in zip(interpret(graph, {}), interpret(after, {}), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_detour_to_a_causal_mask_becomes_a_comparison_of_two_counts() -> None:
    tokens = named_size("tokens")
    b = GraphBuilder("mask")
    x = b.add(Input("x", TensorType(DType.F32, (tokens, tokens))))
    count = b.add(Iota(tokens, DType.I64))
    before = b.add(Subtract(), b.add(Slice(0, 0, 1), count), b.add(Constant(1, DType.I64)))
    joined = b.add(Concat(0), before, count)
    steps = b.add(
        Subtract(), b.add(Slice(0, 1, tokens + 1), joined), b.add(Slice(0, 0, tokens), joined)
    )
    breaks = b.add(NotEqual(), steps, b.add(Constant(1, DType.I64)))
    segment = b.add(CumulativeSum(0), b.add(Cast(DType.I64), breaks))
    rows, columns = (b.add(Reshape(s), segment) for s in ((tokens, 1), (1, tokens)))
    same = b.add(Equal(), rows, columns)
    row = b.add(Reshape((tokens, 1)), count)
    mask = b.add(LogicalAnd(), same, b.add(LessEqual(), count, row))
    graph = b.build(b.add(Select(), mask, x, b.add(Constant(0.0, DType.F32))))
    kept = [node.op.mnemonic for node in simplify_positions(graph).nodes]
    assert kept == ["input", "iota", "reshape", "less_equal", "constant", "select"]


@pytest.mark.parametrize(("factor", "nodes"), [(1.0, 1), (2.0, 3)])
def test_only_a_factor_of_one_is_left_out(factor: float, nodes: int) -> None:
    b = GraphBuilder("scaled")
    x = b.add(Input("x", TensorType(DType.F32, (3,))))
    graph = b.build(b.add(Multiply(), x, b.add(Constant(factor, DType.F32))))
    assert len(simplify_positions(graph).nodes) == nodes


@pytest.mark.parametrize(("condition", "nodes"), [(True, 1), (False, 3)])
def test_only_a_condition_that_always_holds_is_left_out(*, condition: bool, nodes: int) -> None:
    b = GraphBuilder("both")
    x = b.add(Input("x", TensorType(DType.BOOL, (3,))))
    always = b.add(Expand((3,)), b.add(Constant(condition, DType.BOOL)))
    graph = b.build(b.add(LogicalAnd(), x, always))
    assert len(simplify_positions(graph).nodes) == nodes


def test_values_that_depend_on_inputs_keep_their_expansions() -> None:
    b = GraphBuilder("free")
    x = b.add(Input("x", TensorType(DType.F32, (1, 3))))
    wide = b.add(Expand((2, 3)), x)
    graph = b.build(b.add(Add(), wide, wide))
    assert simplify_positions(graph) == graph
