"""Gathered rows are copies, bit for bit, of the rows the ids name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.gather_rows import emit_gather_rows, plan_gather_rows
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.golden_file import Golden
from tests.kernels.vector_case import FEW_CORES, TARGET, launch, random_array

_TABLE_ROWS = 37


def _kernel(
    columns: int,
    dtype: DType,
    *,
    capacity: int = 100,
    target: Target = TARGET,
) -> Kernel:
    plan = plan_gather_rows(
        rows=DeviceSize(0, capacity),
        columns=columns,
        table_rows=_TABLE_ROWS,
        dtype=dtype,
        target=target,
    )
    return emit_gather_rows(plan, "gather_rows")


def test_positions_of_rows_are_chosen_like_rows() -> None:
    kernel = _kernel(1, DType.I32)
    table = np.arange(_TABLE_ROWS, dtype=np.int32) * 1_000_003
    ids = np.random.default_rng(1).integers(0, _TABLE_ROWS, 100).astype(np.int32)
    y = launch(kernel, {"table": table, "ids": ids}, 49)["y"]
    np.testing.assert_array_equal(y[:49], table[ids[:49]])
    assert (y[49:] == -1).all()


@pytest.mark.parametrize("columns", [32, 100, 7_168])
def test_codes_are_rows_like_any_other(columns: int) -> None:
    kernel = _kernel(columns, DType.I8)
    random = np.random.default_rng(1)
    table = random.integers(-128, 128, (_TABLE_ROWS, columns)).astype(np.int8)
    ids = random.integers(0, _TABLE_ROWS, 100).astype(np.int32)
    y = launch(kernel, {"table": table, "ids": ids}, 49)["y"].reshape(100, columns)
    np.testing.assert_array_equal(y[:49], table[ids[:49]])
    assert (y[49:] == -1).all()


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("columns", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 128])
def test_rows_are_copied_for_every_remainder_of_a_block(columns: int, dtype: DType) -> None:
    kernel = _kernel(columns, dtype)
    table = random_array((_TABLE_ROWS, columns), dtype, seed=columns)
    ids = np.random.default_rng(1).integers(0, _TABLE_ROWS, 100).astype(np.int32)
    for rows in (0, 1, 49, 100):
        y = launch(kernel, {"table": table, "ids": ids}, rows)["y"].reshape(100, columns)
        np.testing.assert_array_equal(y[:rows], table[ids[:rows]])
        assert np.isnan(y[rows:].astype(np.float32)).all()


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_a_core_moves_its_rows_in_steps(dtype: DType) -> None:
    columns = 4_097
    kernel = _kernel(columns, dtype, target=FEW_CORES)
    table = random_array((_TABLE_ROWS, columns), dtype, seed=columns)
    ids = np.random.default_rng(1).integers(0, _TABLE_ROWS, 100).astype(np.int32)
    for rows in (1, 27, 100):
        y = launch(kernel, {"table": table, "ids": ids}, rows)["y"].reshape(100, columns)
        np.testing.assert_array_equal(y[:rows], table[ids[:rows]])


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_a_row_longer_than_local_memory_moves_in_pieces(dtype: DType) -> None:
    columns = 65_536 + 3
    kernel = _kernel(columns, dtype, capacity=3)
    table = random_array((_TABLE_ROWS, columns), dtype, seed=0)
    ids = np.array([5, 0, 36], np.int32)
    y = launch(kernel, {"table": table, "ids": ids}, 3)["y"].reshape(3, columns)
    np.testing.assert_array_equal(y, table[ids])


def test_an_id_outside_the_table_is_stopped_by_the_emulator() -> None:
    table = random_array((_TABLE_ROWS, 24), DType.F32, seed=0)
    kernel = _kernel(24, DType.F32, capacity=3)
    with pytest.raises(EmulatorError, match="outside every argument"):
        launch(kernel, {"table": table, "ids": np.array([1, _TABLE_ROWS, 2], np.int32)}, 3)


@settings(max_examples=50)
@given(
    columns=st.integers(1, 200_000),
    capacity=st.integers(1, 5_000),
    dtype=st.sampled_from([DType.F32, DType.BF16]),
)
def test_every_plan_fits_local_memory(columns: int, capacity: int, dtype: DType) -> None:
    plan = plan_gather_rows(
        rows=DeviceSize(0, capacity), columns=columns, table_rows=9, dtype=dtype, target=TARGET
    )
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer
    assert plan.step_rows * plan.pitch * dtype.bytes % 32 == 0
    assert 1 <= plan.step_rows <= 4_095


def test_a_format_without_copies_is_refused() -> None:
    with pytest.raises(GraphError, match=r"gather-rows takes .*, not f64"):
        _kernel(8, DType.F64)


def test_golden(golden: Golden) -> None:
    plan = plan_gather_rows(
        rows=DeviceSize(0, 128),
        columns=7_168,
        table_rows=129_280,
        dtype=DType.BF16,
        target=TARGET,
    )
    golden.check("ascendc/gather_rows_v3.cpp", emit_gather_rows(plan, "embed_tokens").source)
