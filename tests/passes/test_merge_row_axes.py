"""Row form against the static graph, on values; what mixes rows is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import (
    Add,
    Concat,
    Expand,
    Input,
    Matmul,
    Multiply,
    Param,
    ReduceSum,
    Reshape,
    Slice,
    Softmax,
    Transpose,
)
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.merge_row_axes import merge_row_axes

SIZES = st.integers(1, 3)
STEPS = (
    "add_param",
    "add_itself",
    "matmul",
    "flatten",
    "split_last",
    "swap",
    "sum",
    "softmax",
    "join",
    "cut",
    "repeat",
)


def _swap(builder, value, axis):
    order = list(range(builder.type_of(value).rank))
    order[axis], order[-1] = order[-1], order[axis]
    return builder.add(Transpose(tuple(order)), value)


def _step(builder, value, name, axis):
    kind = builder.type_of(value)
    axis %= kind.rank
    last = kind.shape[-1]
    number = f"p{len(builder.needed((value,)))}"

    def param(shape):
        return builder.leaf(Param(number, kind.with_shape(shape)))

    makers = {
        "add_param": lambda: builder.add(Add(), value, param(kind.shape[axis:])),
        "add_itself": lambda: builder.add(Multiply(), value, value),
        "matmul": lambda: builder.add(Matmul(), value, param((last, 2))),
        "flatten": lambda: builder.add(Reshape((int(np.prod(kind.shape[:-1])), last)), value),
        "split_last": lambda: builder.add(Reshape((*kind.shape[:-1], 1, last)), value),
        "swap": lambda: _swap(builder, value, axis),
        "sum": lambda: builder.add(ReduceSum((axis,), keep=True), value),
        "softmax": lambda: builder.add(Softmax(axis), value),
        "join": lambda: builder.add(Concat(axis), value, value),
        "cut": lambda: builder.add(Slice(axis, 0, max(1, kind.shape[axis] - 1)), value),
        "repeat": lambda: builder.add(Expand((2, *kind.shape)), value),
    }
    return makers[name]()


def _merged_or_none(graph, rows):
    try:
        return merge_row_axes(graph, rows)
    except GraphError:
        return None


@given(
    st.lists(SIZES, min_size=2, max_size=3),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=6),
    st.integers(0, 9),
)
def test_row_form_computes_the_same_or_is_refused(shape, steps, seed):
    builder = GraphBuilder("main")
    value = builder.leaf(Input("x", TensorType(DType.F32, tuple(shape))))
    for name, axis in steps:
        value = _step(builder, value, name, axis)
    graph = builder.build(value)
    rows = int(np.prod(shape[:-1]))
    merged = _merged_or_none(graph, rows)
    if merged is None:
        return
    random = np.random.default_rng(seed)
    tensors = {
        graph.op_of(v).name: random.standard_normal(graph.type_of(v).shape) for v in graph.params
    }
    x = random.standard_normal(shape)
    rows_of_x = x.reshape(rows, *merged.input_types["x"].shape[1:])
    (wanted,) = interpret(graph, {**tensors, "x": x})
    (found,) = interpret(merged, {**tensors, "x": rows_of_x})
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([("sum", 1)], "along the row axis"),
        ([("swap", 0)], "moves the rows"),
        ([("join", 1)], "along the row axis"),
        ([("repeat", 0)], "repeats rows"),
        ([("add_param", 0)], "differs from row to row"),
    ],
)
def test_what_mixes_rows_is_refused(steps, reason):
    builder = GraphBuilder("main")
    value = builder.leaf(Input("x", TensorType(DType.F32, (2, 3, 4))))
    for name, axis in steps:
        value = _step(builder, value, name, axis)
    with pytest.raises(GraphError, match=reason):
        merge_row_axes(builder.build(value), 6)


def test_most_steps_have_a_row_form():
    builder = GraphBuilder("main")
    value = builder.leaf(Input("x", TensorType(DType.F32, (2, 3, 4))))
    for name, axis in [("matmul", 0), ("add_param", 2), ("softmax", 2), ("split_last", 0)]:
        value = _step(builder, value, name, axis)
    merged = merge_row_axes(builder.build(value), 6)
    assert [str(kind) for kind in merged.output_types] == ["f32[rows, 1, 2]"]
