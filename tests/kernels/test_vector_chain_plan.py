"""What a chain may contain, what it is turned into, and that its values never share memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_chain import (
    VectorChainPlan,
    can_join_chain,
    emit_vector_chain,
    plan_vector_chain,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Op
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from tests.golden_file import Golden
from tests.kernels.chain_graphs import (
    ChainGraph,
    gated_codes,
    latent,
    normed_codes,
    primitive_norm,
    query,
    residual_norm,
    rotary,
    swiglu,
)
from tests.kernels.places_check import assert_values_keep_their_memory
from tests.kernels.vector_case import TARGET

TOKENS = named_size("tokens")


def _plan(graph: Graph, capacity: int = 128) -> VectorChainPlan:
    return plan_vector_chain(graph, rows=DeviceSize(0, capacity), target=TARGET)


@given(
    columns=st.integers(2, 300),
    heads=st.integers(1, 5),
    rows=st.integers(1, 200),
    dtype=st.sampled_from([DType.F32, DType.BF16]),
    data=st.data(),
)
def test_values_in_use_keep_their_memory(
    columns: int, heads: int, rows: int, dtype: DType, data: st.DataObject
) -> None:
    half = 2 * columns
    graph = data.draw(
        st.sampled_from(
            [
                residual_norm(rows, columns, dtype),
                primitive_norm(rows, columns, dtype),
                swiglu(rows, columns, dtype),
                rotary(rows, heads, half, dtype, (True, True)),
                rotary(rows, heads, half, dtype, (True, False)),
                rotary(rows, heads, half, dtype, (False, True)),
                query(rows, heads, columns, half, dtype),
                latent(rows, columns, half, dtype),
                normed_codes(rows, columns),
                gated_codes(rows, 8 * columns),
            ]
        )
    )
    plan = _plan(graph, rows)
    assert_values_keep_their_memory(plan)
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer


@pytest.mark.parametrize("columns", [7, 64, 2_047, 2_049, 7_168, 18_432, 100_000])
def test_elementwise_rows_of_any_length_fit(columns: int) -> None:
    for dtype in (DType.F32, DType.BF16):
        plan = _plan(swiglu(4_096, columns, dtype), 4_096)
        assert local_bytes(plan.buffers) <= TARGET.unified_buffer
        assert_values_keep_their_memory(plan)


def test_short_rows_fill_a_tile_and_long_ones_do_not() -> None:
    assert _plan(residual_norm(4_096, 64, DType.BF16), 4_096).tile.rows == 86
    assert _plan(residual_norm(4_096, 7_168, DType.BF16), 4_096).tile.rows == 1
    assert _plan(residual_norm(48, 64, DType.BF16), 48).tile.rows == 1


def test_equal_graphs_have_equal_plans() -> None:
    plans = {_plan(residual_norm(64, 128, DType.BF16), capacity) for capacity in (64, 64, 65)}
    assert len(plans) == 2


def test_a_row_that_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(GraphError, match=r"chain: one row needs [0-9,]* bytes of unified buffer"):
        _plan(residual_norm(8, 30_000, DType.BF16))


def _reject(op: Op, *kinds: TensorType) -> str:
    reason = can_join_chain(op, kinds)
    assert reason is not None
    return reason


def test_reasons_why_an_operation_does_not_join() -> None:
    row = TensorType(DType.BF16, (TOKENS, 64))
    heads = TensorType(DType.BF16, (TOKENS, 4, 64))
    ids = TensorType(DType.I32, (TOKENS, 64))
    assert _reject(ops.Argmax(), row) == "argmax is no operation of a chain"
    assert _reject(ops.Exp(), ids) == "i32[tokens, 64] is neither f32 nor bf16"
    assert _reject(ops.Cast(DType.I32), row) == "no cast of bf16[tokens, 64] to i32"
    assert _reject(ops.Cast(DType.BF16), ids) == "no cast of i32[tokens, 64] to bf16"
    assert _reject(ops.Concat(1), ids, ids) == "i32[tokens, 64] is neither f32 nor bf16"
    assert _reject(ops.Add(), ids, ids) == "i32[tokens, 64] is neither f32 nor bf16"
    assert _reject(ops.ReduceSum((0,)), row) == (
        "the reduction is over (0,), not over the last axis"
    )
    assert _reject(ops.ReduceSum((2,), keep=False), heads) == (
        "the reduced axis of a value with groups does not stay"
    )
    assert _reject(ops.Softmax(1), heads) == "the softmax is along axis 1, not along the last"
    assert _reject(ops.Concat(0), row, row) == (
        "the concatenation is along axis 0, not along the last"
    )
    assert _reject(ops.Slice(0, 0, 1), row) == "the slice cuts rows"
    experts = TensorType(DType.I32, (TOKENS,))
    assert _reject(ops.GatherRows(), row, experts) == "bf16[tokens, 64] is no f32 table of rows"
    table = TensorType(DType.F32, (9, 64))
    assert _reject(ops.GatherRows(), table, ids) == "i32[tokens, 64] is no i32 number per row"
    assert "more than two axes" in _reject(ops.Exp(), TensorType(DType.F32, (TOKENS, 2, 3, 4)))


def test_operations_that_join() -> None:
    row = TensorType(DType.BF16, (TOKENS, 64))
    heads = TensorType(DType.BF16, (TOKENS, 4, 64))
    assert can_join_chain(ops.Add(), (row, row)) is None
    assert can_join_chain(ops.RmsNorm(1e-6), (row, TensorType(DType.BF16, (64,)))) is None
    assert can_join_chain(ops.ReduceMean((1,)), (row,)) is None
    assert can_join_chain(ops.Slice(2, 0, 32), (heads,)) is None
    assert can_join_chain(ops.Reshape((TOKENS, 256)), (heads,)) is None
    assert can_join_chain(ops.Cast(DType.F32), (row,)) is None
    assert can_join_chain(ops.Cast(DType.I8), (row,)) is None
    assert can_join_chain(ops.Round(), (row,)) is None
    sums = TensorType(DType.I32, (TOKENS, 64))
    assert can_join_chain(ops.Cast(DType.F32), (sums,)) is None
    assert can_join_chain(ops.Slice(1, 0, 32), (sums,)) is None
    table, experts = TensorType(DType.F32, (9, 64)), TensorType(DType.I32, (TOKENS,))
    assert can_join_chain(ops.GatherRows(), (table, experts)) is None


def test_a_refusal_names_the_operation() -> None:
    graph = ChainGraph(8, DType.F32)
    x = graph.input(64)
    taken = graph.add(ops.Argmax(), x)
    with pytest.raises(GraphError) as caught:
        _plan(graph.build(taken))
    assert str(caught.value) == (
        "error[not-a-chain]: chain: argmax: argmax is no operation of a chain\n"
        "   |\n"
        "   | argmax f32[8, 64] -> i32[8]\n"
        "   |\n"
        "\n"
        "hint: write this line of the model with element-wise operations and reductions of the "
        "last axis"
    )


def test_casts_do_not_round_in_the_middle_of_a_chain_unless_they_are_there_to_round() -> None:
    graph = ChainGraph(8, DType.F32)
    narrow = graph.add(ops.Cast(DType.BF16), graph.add(ops.Exp(), graph.input(64)))
    computed = graph.add(ops.Cast(DType.F32), graph.add(ops.Multiply(), narrow, narrow))
    assert "CAST_RINT" not in emit_vector_chain(_plan(graph.build(computed)), "chain").source
    back = graph.add(ops.Cast(DType.F32), graph.add(ops.Reshape((8, 64)), narrow))
    source = emit_vector_chain(_plan(graph.build(back)), "chain").source
    assert source.count("CAST_RINT") == source.count("CAST_NONE") == 1


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("residual_norm", residual_norm(128, 7_168, DType.BF16)),
        ("swiglu", swiglu(128, 18_432, DType.BF16)),
        ("query", query(128, 128, 128, 64, DType.BF16)),
        ("latent", latent(128, 512, 64, DType.BF16)),
        ("normed_codes", normed_codes(128, 7_168)),
        ("gated_codes", gated_codes(128, 2_048)),
    ],
)
def test_golden(golden: Golden, name: str, graph: Graph) -> None:
    kernel = emit_vector_chain(_plan(graph), name)
    golden.check(f"ascendc/vector_chain_{name}.cpp", kernel.source)
