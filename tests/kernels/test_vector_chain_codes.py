"""Chains that make int8 codes, and that make numbers of codes and of their sums, bit for bit."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_chain import emit_vector_chain, plan_vector_chain
from ascendfx.ir import ops
from ascendfx.ir.code_pairs import unpack_pairs
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.tensor_type import DType
from tests.kernels.chain_graphs import (
    TINY,
    ChainGraph,
    dequantize,
    expert_sums,
    gated_codes,
    gated_digits,
    quantize,
    split,
)
from tests.kernels.vector_case import FEW_CORES, Array, launch, random_array

ROWS = 21
REMAINDERS = pytest.mark.parametrize("columns", [2, 8, 17, 24, 31, 32, 33, 64, 100, 7_168])


def floats(shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """Return standard normal numbers."""
    return random_array(shape, DType.F32, seed).astype(np.float32)


def codes_of(x: Array) -> tuple[Array, Array]:
    """Return codes and scales of rows, every operation rounded to f32."""
    wide = x.astype(np.float32)
    largest = np.maximum(np.abs(wide).max(1, keepdims=True), np.float32(TINY))
    scale = largest * np.float32(1 / 127)
    return np.clip(np.rint(wide / scale), -127, 127).astype(np.int8), scale


def run_chain(graph: Graph, inputs: Sequence[Array], rows: int = ROWS) -> list[Array]:
    """Return the outputs of the first ``rows`` rows, ``[rows, columns]``; check the others."""
    plan = plan_vector_chain(graph, rows=DeviceSize(0, ROWS), target=FEW_CORES)
    names = [each.name for each in plan.program.inputs]
    out = launch(emit_vector_chain(plan, "codes"), dict(zip(names, inputs, strict=True)), rows)
    results: list[Array] = []
    for i, kind in enumerate(graph.output_types):
        tensor = out[f"y{i}"].reshape(ROWS, -1)
        rest = tensor[rows:]
        unwritten = np.array(-1).astype(kind.dtype.numpy)
        assert (np.isnan(rest) if kind.dtype.is_float else rest == unwritten).all()
        results.append(tensor[:rows])
    return results


def samples(columns: int, dtype: DType = DType.BF16) -> Array:
    """Return rows of different sizes, one of them zero, one with all quotients halfway."""
    x = floats((ROWS, columns), columns)
    x *= np.float32(2.0) ** np.arange(-10, ROWS - 10, dtype=np.float32)[:, None]
    x[3] = 0
    x[5] = np.arange(columns) % 127 + 0.5
    x[5, -1] = 127
    return x.astype(dtype.numpy)


@REMAINDERS
def test_codes_and_scales_are_those_of_float32(columns: int) -> None:
    graph = ChainGraph(ROWS, DType.BF16)
    x = samples(columns)
    chain = graph.build(*quantize(graph, graph.input(columns)))
    codes, scales = codes_of(x)
    for rows in (0, 1, ROWS):
        found = run_chain(chain, [x], rows)
        np.testing.assert_array_equal(found[0], codes[:rows])
        np.testing.assert_array_equal(found[1], scales[:rows])
    assert codes.min() == -127
    assert codes.max() == 127


@REMAINDERS
def test_sums_of_products_become_bfloat16(columns: int) -> None:
    graph = ChainGraph(ROWS, DType.F32)
    sums, scale = graph.input(columns, dtype=DType.I32), graph.input(1)
    number = dequantize(graph, sums, scale, graph.param(columns))
    chain = graph.build(graph.add(ops.Cast(DType.BF16), number))
    given = np.random.default_rng(0).integers(-(2**31), 2**31, (ROWS, columns)).astype(np.int32)
    s, t = floats((ROWS, 1), 1), floats((columns,), 2)
    wanted = (given.astype(np.float32) * s * t).astype(DType.BF16.numpy)
    for rows in (1, ROWS):
        np.testing.assert_array_equal(run_chain(chain, [given, s, t], rows)[0], wanted[:rows])


@pytest.mark.parametrize("columns", [2, 8, 24, 100, 4_100])
def test_each_row_has_the_scales_of_its_expert(columns: int) -> None:
    chain = expert_sums(ROWS, columns, 5, DType.BF16)
    random = np.random.default_rng(0)
    given = random.integers(-(2**20), 2**20, (ROWS, columns)).astype(np.int32)
    expert = np.sort(random.integers(0, 5, ROWS)).astype(np.int32)
    s, t = floats((ROWS, 1), 1), floats((5, columns), 2)
    wanted = (given.astype(np.float32) * s * t[expert]).astype(DType.BF16.numpy)
    for rows in (1, ROWS):
        found = run_chain(chain, [given, s, expert, t], rows)[0]
        np.testing.assert_array_equal(found, wanted[:rows])


def test_parts_of_looked_up_rows_are_copied_in_alone() -> None:
    graph = ChainGraph(ROWS, DType.F32)
    x, expert = graph.input(24), graph.input(dtype=DType.I32)
    channels = graph.add(ops.GatherRows(), graph.param(5, 48), expert)
    part = graph.add(ops.Slice(1, 24, 48), channels)
    chain = graph.build(graph.add(ops.Add(), x, part))
    ids = np.arange(ROWS, dtype=np.int32) % 5
    a, t = floats((ROWS, 24), 1), floats((5, 48), 2)
    np.testing.assert_array_equal(run_chain(chain, [a, ids, t])[0], a + t[ids, 24:])


@REMAINDERS
def test_codes_become_numbers(columns: int) -> None:
    graph = ChainGraph(ROWS, DType.F32)
    codes, scale = graph.input(columns, dtype=DType.I8), graph.input(1)
    wide = graph.add(ops.Cast(DType.F32), codes)
    chain = graph.build(graph.add(ops.Multiply(), wide, scale))
    given = np.random.default_rng(0).integers(-128, 128, (ROWS, columns)).astype(np.int8)
    s = floats((ROWS, 1), 1)
    np.testing.assert_array_equal(run_chain(chain, [given, s])[0], given.astype(np.float32) * s)


def digits_of(x: Array) -> tuple[Array, Array]:
    """Return codes from -119 to 119 and scales of rows, every operation rounded to f32."""
    largest = np.maximum(np.abs(x).max(1, keepdims=True), np.float32(TINY))
    scale = largest * np.float32(1 / 119)
    return np.rint(x / scale).astype(np.int64), scale


def joined(pairs: Array) -> Array:
    """Return the codes of digits ``[rows, 2 * bytes]``."""
    high, low = np.split(unpack_pairs(pairs), 2, axis=1)
    return 16 * high + low


AT_NIGHT = pytest.mark.nightly


@pytest.mark.parametrize(
    "columns",
    [30, 64, *(pytest.param(each, marks=AT_NIGHT) for each in (2, 8, 32, 62, 100, 160, 7_168))],
)
def test_digits_are_those_of_the_codes(columns: int) -> None:
    graph = ChainGraph(ROWS, DType.F32)
    chain = graph.build(*split(graph, graph.input(columns)))
    x = samples(columns, DType.F32)
    x[7] = np.arange(columns) % 239 - 119  # every code
    x[7, 0] = 119
    codes, scales = digits_of(x)
    for rows in (0, 1, ROWS):
        found = run_chain(chain, [x], rows)
        np.testing.assert_array_equal(joined(found[0]), codes[:rows])
        np.testing.assert_array_equal(found[1], scales[:rows])
        expected = ops.SplitCodes().reference(codes[:rows])[0].reshape(found[0].shape)
        np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("columns", [24, *(pytest.param(n, marks=AT_NIGHT) for n in (96, 2_048))])
def test_sums_of_digits_to_gated_digits_are_one_chain(columns: int) -> None:
    random = np.random.default_rng(0)
    given = random.integers(-9_999, 9_999, (ROWS, 2, 2 * columns)).astype(np.int32)
    s = np.abs(floats((ROWS, 1), 1)) * np.float32(1e-5)
    found, pairs, scales = run_chain(gated_digits(ROWS, columns), [given, s])
    sums = (16 * given[:, 0].astype(np.int64) + given[:, 1]).astype(np.float32) * s
    gate, up = np.split(sums.astype(np.float64), 2, axis=1)
    np.testing.assert_allclose(found, gate / (1 + np.exp(-gate)) * up, rtol=2e-5, atol=1e-9)
    codes, wanted_scales = digits_of(found)
    np.testing.assert_array_equal(joined(pairs), codes)
    np.testing.assert_array_equal(scales, wanted_scales)


def test_digits_of_heads_are_refused() -> None:
    graph = ChainGraph(ROWS, DType.F32)
    chain = graph.build(graph.add(ops.SplitCodes(), graph.input(3, 8)))
    with pytest.raises(GraphError, match="only one line of codes in a row"):
        plan_vector_chain(chain, rows=DeviceSize(0, ROWS), target=FEW_CORES)


def test_long_rows_go_in_pieces() -> None:
    columns = 5_001
    graph = ChainGraph(ROWS, DType.F32)
    sums, codes = graph.input(columns, dtype=DType.I32), graph.input(columns, dtype=DType.I8)
    half = graph.add(ops.Multiply(), graph.add(ops.Cast(DType.F32), sums), graph.number(0.5))
    total = graph.add(ops.Add(), half, graph.add(ops.Cast(DType.F32), codes))
    chain = graph.build(graph.add(ops.Cast(DType.I8), graph.add(ops.Round(), total)))
    plan = plan_vector_chain(chain, rows=DeviceSize(0, ROWS), target=FEW_CORES)
    assert plan.pieces > 1
    random = np.random.default_rng(0)
    a = random.integers(-100, 100, (ROWS, columns)).astype(np.int32)
    b = random.integers(-77, 77, (ROWS, columns)).astype(np.int8)
    wanted = np.rint(a * np.float32(0.5) + b).astype(np.int8)
    np.testing.assert_array_equal(run_chain(chain, [a, b])[0], wanted)


@pytest.mark.parametrize("columns", [24, 96, 2_048])
def test_products_to_gated_codes_are_one_chain(columns: int) -> None:
    given = np.random.default_rng(0).integers(-9_999, 9_999, (ROWS, 2 * columns)).astype(np.int32)
    s = np.abs(floats((ROWS, 1), 1)) * np.float32(1e-3)
    t = floats((2 * columns,), 2)
    found, codes, scales = run_chain(gated_codes(ROWS, columns), [given, s, t])
    wanted_codes, wanted_scales = codes_of(found)
    np.testing.assert_array_equal(codes, wanted_codes)
    np.testing.assert_array_equal(scales, wanted_scales)


def test_rounding_takes_the_even_of_two_neighbours() -> None:
    graph = ChainGraph(ROWS, DType.F32)
    chain = graph.build(graph.add(ops.Round(), graph.input(8)))
    row = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e9, 0.49999997], np.float32)
    x = np.tile(row, (ROWS, 1))
    np.testing.assert_array_equal(run_chain(chain, [x])[0], np.rint(x))
