"""Values and shapes at which a nearly right translation goes wrong."""

import numpy as np
import pytest

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from tests.ir.op_cases import operand_types
from tests.onnx.assert_agrees import assert_graph_agrees

N = named_size("n")
NUMBERS = np.array([-7, -6, -1, 0, 1, 6, 7, 8])


def graph_of(op: Op, text: str) -> Graph:
    builder = GraphBuilder("g")
    inputs = [builder.add(ops.Input(f"x{i}", kind)) for i, kind in enumerate(operand_types(text))]
    return builder.build(*builder.add_multi(op, *inputs))


def check(op: Op, text: str, *arrays: Array) -> None:
    assert_graph_agrees(graph_of(op, text), {f"x{i}": each for i, each in enumerate(arrays)})


@pytest.mark.parametrize("dtype", ["i64", "i32"])
@pytest.mark.parametrize("divisor", [-3, -1, 2, 7])
def test_integer_quotients_are_rounded_down(dtype: str, divisor: int) -> None:
    check(ops.Divide(), f"{dtype}[8], {dtype}[]", NUMBERS, np.array(divisor))


@pytest.mark.parametrize("dtype", ["i64", "i32", "i8"])
def test_integer_arithmetic_is_exact(dtype: str) -> None:
    for op in (ops.Add(), ops.Subtract(), ops.Multiply(), ops.Maximum(), ops.Minimum()):
        check(op, f"{dtype}[8], {dtype}[8]", NUMBERS, NUMBERS[::-1])
    check(ops.Relu(), f"{dtype}[8]", NUMBERS)
    check(ops.Negate(), f"{dtype}[8]", NUMBERS)


def test_truth_values_are_compared_and_chosen() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for op in (ops.Equal(), ops.NotEqual(), ops.Less(), ops.GreaterEqual()):
        check(op, "bool[4], bool[4]", a, b)
    check(ops.Select(), "bool[4], bool[4], bool[4]", np.array([True, False, False, True]), a, b)
    check(ops.Expand((3, 4)), "bool[4]", a)


def test_a_float_is_truncated_toward_zero() -> None:
    check(ops.Cast(DType.I32), "f32[5]", np.array([-1.9, -0.5, 0.5, 1.5, 2.9]))


def test_a_hidden_token_has_no_weight_however_low_the_visible_scores_are() -> None:
    queries, values = np.ones((1, 2, 1, 2)), np.array([1.0, -1.0]).reshape(1, 2, 1, 1)
    keys = np.array([[-1000.0, 0], [0, 0]]).reshape(1, 2, 1, 2)
    op = ops.Attention(1, 1.0, causal=True)
    check(op, "f32[1, 2, 1, 2], f32[1, 2, 1, 2], f32[1, 2, 1, 1]", queries, keys, values)


@pytest.mark.parametrize(("key_heads", "value_heads"), [(1, 2), (2, 3), (3, 6), (6, 2)])
def test_query_heads_share_key_and_value_heads(key_heads: int, value_heads: int) -> None:
    random = np.random.default_rng(0)
    shapes = (2, 3, 6, 4), (2, 5, key_heads, 4), (2, 5, value_heads, 3)
    text = ", ".join(f"f32[{', '.join(map(str, shape))}]" for shape in shapes)
    check(ops.Attention(1, 0.5), text, *(random.standard_normal(shape) for shape in shapes))
    ragged = (3, 6, 4), *shapes[1:]
    text = ", ".join(f"f32[{', '.join(map(str, shape))}]" for shape in ragged)
    check(
        ops.RaggedAttention(1, 0.5),
        f"{text}, i32[3], i32[3]",
        *(random.standard_normal(shape) for shape in ragged),
        np.array([4, 0, 2]),
        np.array([0, 1, 1]),
    )


@pytest.mark.parametrize("requests", [1, 2])
def test_rows_of_a_tree_see_their_paths(requests: int) -> None:
    random = np.random.default_rng(0)
    shapes = (6, 4, 3), (requests, 9, 2, 3), (requests, 9, 1, 5)
    text = ", ".join(f"f32[{', '.join(map(str, shape))}]" for shape in shapes)
    ancestors = np.array([1, 0b11, 0b101, 0b1011, 0, 0b110011])
    check(
        ops.RaggedAttention(1, 0.5, tree=True),
        f"{text}, i32[6], i32[6], i32[6]",
        *(random.standard_normal(shape) for shape in shapes),
        np.array([3, 4, 4, 5, 8, 3]),
        np.arange(6) % requests,
        ancestors,
    )


def test_a_group_that_is_not_kept_loses_against_negative_scores() -> None:
    bias = np.array([-9.0, -9, -9, -5, -30, -30, -30, -30])
    for masked_value in (float("-inf"), 0.0):
        op = ops.RouteTopk(
            2, "sigmoid", biased=True, groups=2, topk_groups=1, masked_value=masked_value
        )
        check(op, "f32[1, 8], f32[8]", np.linspace(-1, 1, 8)[None], bias)


def test_ties_go_to_the_lower_index() -> None:
    a = np.array([[2.0, 5, 5, 2, 5, 1]])
    check(ops.Topk(4), "f32[1, 6]", a)
    check(ops.Argmax(), "f32[1, 6]", a)
    check(ops.Sort(1, descending=True), "f32[1, 6]", a)
    check(ops.Sort(1), "f32[1, 6]", a)
    check(ops.RouteTopk(3, "softmax"), "f32[1, 6]", a)
    check(ops.DispatchExperts(4), "i64[3, 2]", np.array([[1, 3], [3, 1], [1, 0]]))


def test_experts_without_rows_and_rows_without_experts() -> None:
    random = np.random.default_rng(1)
    x, w = random.standard_normal((4, 3)), random.standard_normal((5, 2, 3))
    for ends in ([0, 0, 4, 4, 4], [0, 0, 0, 0, 0], [1, 1, 1, 1, 2]):
        check(ops.GroupedLinear(), "f32[4, 3], f32[5, 2, 3], i32[5]", x, w, np.array(ends))


def test_an_axis_may_be_empty() -> None:
    builder = GraphBuilder("g")
    x = builder.add(ops.Input("x", TensorType(DType.F32, (4, N))))
    turned = builder.add(ops.Reshape((N, 2, 2)), x)
    graph = builder.build(turned, builder.add(ops.ReduceSum((0,)), turned))
    assert_graph_agrees(graph, {"x": np.zeros((4, 0))})
