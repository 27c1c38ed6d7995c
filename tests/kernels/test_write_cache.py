"""Rows land in the slots they name; nothing else in the cache changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView, local_bytes
from ascendfx.codegen.ascendc.kernels.write_cache import (
    WriteCachePlan,
    emit_write_cache,
    plan_write_cache,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.golden_file import Golden
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, launch, random_array

_CACHE_ROWS = 2 * 128
_CAPACITY = 100


def _plan(
    columns: int, dtype: DType, view: RowView | None = None, target: Target = TARGET
) -> WriteCachePlan:
    return plan_write_cache(
        rows=DeviceSize(0, _CAPACITY),
        columns=columns,
        cache_rows=_CACHE_ROWS,
        dtype=dtype,
        target=target,
        view=view,
    )


def _check(plan: WriteCachePlan, rows: int, slots: Array) -> None:
    columns, view = plan.columns, plan.view
    kernel = emit_write_cache(plan, "write_cache")
    x = random_array((kernel.arguments[0].elements,), plan.dtype, seed=rows)
    before = random_array((_CACHE_ROWS, columns), plan.dtype, seed=1)
    inputs = {"x": x, "slots": slots, "cache": before}
    after = launch(kernel, inputs, rows)["cache"].reshape(_CACHE_ROWS, columns)
    expected = before.copy()
    for i, slot in enumerate(slots[:rows]):
        if slot >= 0:
            start = view.offset + i * view.stride
            expected[slot] = x[start : start + columns]
    np.testing.assert_array_equal(after, expected)


def _slots(seed: int) -> Array:
    random = np.random.default_rng(seed)
    slots = random.permutation(_CACHE_ROWS)[:_CAPACITY].astype(np.int32)
    slots[random.random(_CAPACITY) < 0.2] = -1
    return slots


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("columns", [1, 7, 8, 9, 15, 16, 17, 64, 576])
def test_rows_land_in_their_slots(columns: int, dtype: DType) -> None:
    for rows in (0, 1, 49, _CAPACITY):
        _check(_plan(columns, dtype), rows, _slots(rows))


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("stride_offset", [(64, 0), (577, 0), (576, 512), (65, 1)])
def test_rows_of_a_wider_tensor(stride_offset: tuple[int, int], dtype: DType) -> None:
    _check(_plan(64, dtype, RowView(*stride_offset)), _CAPACITY, _slots(2))


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_a_core_writes_its_rows_in_steps(dtype: DType) -> None:
    plan = _plan(2_049, dtype, RowView(2_100, 7), FEW_CORES)
    assert plan.step_rows < 25
    for rows in (1, 27, _CAPACITY):
        _check(plan, rows, _slots(rows))


def test_a_slot_outside_the_cache_is_stopped_by_the_emulator() -> None:
    slots = _slots(3)
    slots[0] = _CACHE_ROWS
    with pytest.raises(EmulatorError, match="cache"):
        _check(_plan(64, DType.F32), 1, slots)


@settings(max_examples=50)
@given(columns=st.integers(1, 16_384), capacity=st.integers(1, 5_000))
def test_every_plan_fits_local_memory(columns: int, capacity: int) -> None:
    plan = plan_write_cache(
        rows=DeviceSize(0, capacity),
        columns=columns,
        cache_rows=128,
        dtype=DType.F32,
        target=TARGET,
    )
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer
    assert 1 <= plan.step_rows <= 4_095


def test_rows_that_overlap_are_refused() -> None:
    with pytest.raises(GraphError, match="rows of 64 elements at stride 63, offset 0 overlap"):
        _plan(64, DType.F32, RowView(63))


def test_a_row_that_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(GraphError) as caught:
        _plan(30_000, DType.F32)
    assert str(caught.value) == (
        "error[tile-too-large]: write-cache needs 240,064 bytes of unified buffer, "
        "ascend910b2 has 188,160\n"
        "   = note: slotQueue 2 x 32 bytes\n"
        "   = note: rowQueue 2 x 120,000 bytes"
    )


def test_golden(golden: Golden) -> None:
    plan = plan_write_cache(
        rows=DeviceSize(0, 128),
        columns=512,
        cache_rows=1_024 * 128,
        dtype=DType.BF16,
        target=TARGET,
        view=RowView(576),
    )
    golden.check("ascendc/write_cache_v3.cpp", emit_write_cache(plan, "write_latent").source)
