"""Chains run in the emulator against float64, within the bound of a running error analysis."""

from collections.abc import Callable

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_chain import emit_vector_chain, plan_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView
from ascendfx.ir import ops
from ascendfx.ir.graph import Value
from ascendfx.ir.tensor_type import DType
from tests.kernels.chain_case import check_chain
from tests.kernels.chain_graphs import (
    ChainGraph,
    elementwise,
    latent,
    primitive_norm,
    query,
    residual_norm,
    rotary,
    swiglu,
)
from tests.kernels.vector_case import FEW_CORES, TARGET, launch, random_array

BOTH = pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
REMAINDERS = pytest.mark.parametrize(
    "columns", [2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 33, 63, 64, 65, 100]
)


@BOTH
@REMAINDERS
def test_residual_and_norm(columns: int, dtype: DType) -> None:
    check_chain(residual_norm(60, columns, dtype), (0, 1, 49, 60))


@REMAINDERS
@pytest.mark.parametrize("form", ["line", "number per row", "parameter"])
def test_a_number_that_is_narrowed_and_widened_again_is_rounded(columns: int, form: str) -> None:
    _check_rounding(columns, form)


def test_rounding_works_in_pieces_of_long_rows() -> None:
    _check_rounding(5_001, "line")


def _check_rounding(columns: int, form: str) -> None:
    """Compare ``x - widen(narrow(v))`` with ml_dtypes, bit for bit: the difference is exact."""
    rows = 13
    graph = ChainGraph(rows, DType.F32)
    x = graph.input(columns)
    value = {
        "line": lambda: x,
        "number per row": lambda: graph.add(ops.ReduceMax((1,), keep=True), x),
        "parameter": lambda: graph.param(columns),
    }[form]()
    narrow = graph.add(ops.Cast(DType.BF16), value)
    out = graph.add(ops.Subtract(), value, graph.add(ops.Cast(DType.F32), narrow))
    wide = graph.add(ops.Add(), out, graph.add(ops.Multiply(), x, graph.number(0.0)))
    plan = plan_vector_chain(graph.build(wide), rows=DeviceSize(0, rows), target=FEW_CORES)
    numbers = random_array((rows, columns), DType.F32, 0)
    numbers[0, :2] = 1 + 2.0**-8, 1 + 3 * 2.0**-8  # midpoints: to even
    param = random_array((columns,), DType.F32, 1)
    found = launch(emit_vector_chain(plan, "chain"), {"x0": numbers, "w0": param}, rows)["y0"]
    given = {"line": numbers, "number per row": numbers.max(1, keepdims=True), "parameter": param}
    value_given = given[form]
    exact = np.subtract(value_given, value_given.astype(DType.BF16.numpy).astype(np.float32))
    wanted = np.broadcast_to(exact, numbers.shape)
    np.testing.assert_array_equal(found.reshape(numbers.shape), wanted)
    assert np.any(wanted != 0)


@BOTH
@pytest.mark.parametrize("columns", [1_536, 2_047, 5_120, 7_168])
def test_long_norms(columns: int, dtype: DType) -> None:
    check_chain(residual_norm(7, columns, dtype), (1, 7))


@BOTH
def test_all_cores_share_the_rows(dtype: DType) -> None:
    for graph in (residual_norm(100, 40, dtype), query(100, 4, 16, 8, dtype)):
        check_chain(graph, (0, 1, 49, 100), target=TARGET)


@BOTH
@pytest.mark.parametrize("columns", [24, 136, 200])
def test_tiles_of_many_lines(columns: int, dtype: DType) -> None:
    check_chain(residual_norm(700, columns, dtype), (1, 700), target=FEW_CORES)
    check_chain(rotary(90, 9, columns, dtype, (True, True)), (1, 90), target=FEW_CORES)


@BOTH
@pytest.mark.parametrize("columns", [9, 64, 513])
def test_a_norm_in_primitive_operations(columns: int, dtype: DType) -> None:
    check_chain(primitive_norm(60, columns, dtype), (1, 60))


@BOTH
@REMAINDERS
def test_swiglu(columns: int, dtype: DType) -> None:
    check_chain(swiglu(60, columns, dtype), (0, 1, 49, 60))


@BOTH
@pytest.mark.parametrize("columns", [2_049, 2_056, 4_096, 18_432])
def test_long_rows_go_in_pieces(columns: int, dtype: DType) -> None:
    check_chain(swiglu(5, columns, dtype), (0, 1, 5))


@BOTH
@pytest.mark.parametrize("layout", [(a, b) for a in (False, True) for b in (False, True)])
@pytest.mark.parametrize("columns", [4, 8, 16, 24, 64])
def test_rotary_in_every_layout(columns: int, layout: tuple[bool, bool], dtype: DType) -> None:
    for heads in (1, 3):
        check_chain(rotary(55, heads, columns, dtype, layout), (0, 1, 55))


@BOTH
@pytest.mark.parametrize("shape", [(4, 16, 8), (16, 128, 64), (3, 5, 4)])
def test_queries_are_split_rotated_and_joined(shape: tuple[int, int, int], dtype: DType) -> None:
    check_chain(query(50, *shape, dtype), (0, 1, 50))


@BOTH
@pytest.mark.parametrize("shape", [(512, 64), (32, 8), (17, 6)])
def test_the_latent_and_its_key(shape: tuple[int, int], dtype: DType) -> None:
    check_chain(latent(50, *shape, dtype), (0, 1, 50))


@BOTH
def test_inputs_may_be_rows_of_wider_tensors(dtype: DType) -> None:
    check_chain(residual_norm(50, 24, dtype), (0, 1, 50), views={0: RowView(40, 5)})
    check_chain(query(50, 4, 16, 8, dtype), (50,), views={0: RowView(100, 3), 1: RowView(8, 4)})


_FUNCTIONS: dict[str, Callable[[ChainGraph, Value, Value], Value]] = {
    "add": lambda g, a, b: g.add(ops.Add(), a, b),
    "subtract": lambda g, a, b: g.add(ops.Subtract(), a, b),
    "multiply": lambda g, a, b: g.add(ops.Multiply(), a, b),
    "divide": lambda g, a, b: g.add(ops.Divide(), a, b),
    "maximum": lambda g, a, b: g.add(ops.Maximum(), a, b),
    "minimum": lambda g, a, b: g.add(ops.Minimum(), a, b),
    "negate": lambda g, a, b: g.add(ops.Add(), g.add(ops.Negate(), a), b),
    "exp": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Exp(), a), b),
    "log": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Log(), a), b),
    "sqrt": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Sqrt(), a), b),
    "rsqrt": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Rsqrt(), a), b),
    "reciprocal": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Reciprocal(), a), b),
    "sigmoid": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Sigmoid(), a), b),
    "silu": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Silu(), a), b),
    "relu": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Relu(), a), b),
    "add_number": lambda g, a, b: g.add(ops.Add(), g.number(1.5), g.add(ops.Add(), a, b)),
    "number_minus": lambda g, a, b: g.add(
        ops.Subtract(), g.number(1.5), g.add(ops.Subtract(), a, b)
    ),
    "minus_number": lambda g, a, b: g.add(
        ops.Subtract(), g.add(ops.Subtract(), a, b), g.number(1.5)
    ),
    "over_three": lambda g, a, b: g.add(ops.Divide(), g.add(ops.Add(), a, b), g.number(3.0)),
    "over_four": lambda g, a, b: g.add(ops.Divide(), g.add(ops.Add(), a, b), g.number(4.0)),
    "three_over": lambda g, a, b: g.add(ops.Divide(), g.number(3.0), g.add(ops.Multiply(), a, b)),
    "cube": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Power(), a, g.number(3.0)), b),
    "power_minus_half": lambda g, a, b: g.add(
        ops.Multiply(), g.add(ops.Power(), a, g.number(-0.5)), b
    ),
    "clamp": lambda g, a, b: g.add(
        ops.Minimum(), g.add(ops.Maximum(), g.add(ops.Add(), a, b), g.number(0.5)), g.number(1.0)
    ),
    "softmax": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Softmax(1), a), b),
    "maximum_of_row": lambda g, a, b: g.add(ops.Subtract(), b, g.add(ops.ReduceMax((1,)), a)),
    "sum_of_row": lambda g, a, b: g.add(ops.Divide(), b, g.add(ops.ReduceSum((1,)), a)),
    "square": lambda g, a, b: g.add(ops.Multiply(), g.add(ops.Multiply(), a, a), b),
}


@BOTH
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_every_function(name: str, dtype: DType) -> None:
    for columns in (40, 13):
        graph = elementwise(50, columns, dtype, _FUNCTIONS[name])
        check_chain(graph, (0, 1, 50), positive=True)


@BOTH
def test_numbers_per_row_are_read_and_written(dtype: DType) -> None:
    graph = ChainGraph(50, dtype)
    x, factor = graph.input(24), graph.input(1)
    scaled = graph.add(ops.Multiply(), x, factor)
    total = graph.add(ops.ReduceSum((1,), keep=False), scaled)
    check_chain(graph.build(scaled, total), (0, 1, 50))


@BOTH
@pytest.mark.parametrize("columns", [24, 136])
def test_numbers_per_head_scale_heads(columns: int, dtype: DType) -> None:
    graph = ChainGraph(50, dtype)
    x, gain = graph.input(3, columns), graph.param(columns)
    normed = graph.add(ops.RmsNorm(1e-6), x, gain)
    shifted = graph.add(ops.Add(), normed, graph.param(3, columns))
    largest = graph.add(ops.ReduceMax((2,)), shifted)
    check_chain(graph.build(graph.add(ops.Subtract(), shifted, largest), largest), (0, 1, 50))


@BOTH
def test_computed_values_are_cut_and_joined(dtype: DType) -> None:
    graph = ChainGraph(50, dtype)
    x = graph.add(ops.Exp(), graph.input(40))
    low, high = graph.add(ops.Slice(1, 0, 16), x), graph.add(ops.Slice(1, 16, 40), x)
    odd = graph.add(ops.Slice(1, 3, 20), x)
    third = graph.add(ops.Slice(1, 1, 40, 3), x)
    turned = graph.add(ops.Negate(), graph.add(ops.Concat(1), high, low))
    check_chain(graph.build(turned, odd, third), (0, 1, 50))


@BOTH
@pytest.mark.parametrize("heads", [3, 6])
def test_a_shared_line_is_repeated_for_every_head(heads: int, dtype: DType) -> None:
    graph = ChainGraph(50, dtype)
    own, shared = graph.input(heads, 16), graph.input(1, 8)
    wide = graph.add(ops.Expand((50, heads, 8)), shared)
    check_chain(graph.build(graph.add(ops.Concat(2), own, wide)), (0, 1, 50))


@BOTH
def test_heads_of_computed_rows(dtype: DType) -> None:
    graph = ChainGraph(50, dtype)
    row = graph.add(ops.Exp(), graph.input(48))
    heads = graph.add(ops.Reshape((50, 3, 16)), row)
    total = graph.add(ops.ReduceSum((2,)), heads)
    back = graph.add(ops.Reshape((50, 48)), graph.add(ops.Divide(), heads, total))
    check_chain(graph.build(back), (0, 1, 50))


def test_many_inputs_share_a_queue() -> None:
    graph = ChainGraph(50, DType.F32)
    rows = [graph.input(24) for _ in range(9)]
    gains = [graph.param(24) for _ in range(9)]
    total = graph.add(ops.Multiply(), rows[0], gains[0])
    for row, gain in zip(rows[1:], gains[1:], strict=True):
        total = graph.add(ops.Add(), total, graph.add(ops.Multiply(), row, gain))
    check_chain(graph.build(total, graph.add(ops.Add(), total, rows[0])), (0, 1, 50))
