"""The token is the lowest index of the largest logit, exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.argmax import emit_argmax, plan_argmax
from ascendfx.codegen.ascendc.kernels.reduction_work import reduce_max_work_elements
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType
from tests.golden_file import Golden
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, launch


def _check(logits: Array, dtype: DType, rows: int, target: Target = TARGET) -> None:
    capacity, columns = logits.shape
    plan = plan_argmax(rows=DeviceSize(0, capacity), columns=columns, dtype=dtype, target=target)
    stored = logits.astype(dtype.numpy)
    tokens = launch(emit_argmax(plan, "argmax"), {"logits": stored}, rows)["tokens"]
    expected = np.argmax(stored.astype(np.float64), axis=1)
    np.testing.assert_array_equal(tokens[:rows], expected[:rows])
    assert (tokens[rows:] == -1).all()


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("columns", [1, 7, 8, 15, 16, 17, 63, 64, 65, 129, 4_097])
def test_ties_go_to_the_lowest_index(columns: int, dtype: DType) -> None:
    random = np.random.default_rng(columns)
    logits = random.integers(-3, 3, (60, columns)).astype(np.float64)
    for rows in (0, 1, 49, 60):
        _check(logits, dtype, rows)
    _check(logits, dtype, 31, FEW_CORES)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_the_vocabulary_of_deepseek_v3(dtype: DType) -> None:
    columns = 129_280
    logits = np.random.default_rng(0).standard_normal((4, columns))
    logits[1, columns - 1] = 9.0
    logits[2, [16_383, 16_384, 70_000]] = 9.0
    logits[3, :] = -np.inf
    _check(logits, dtype, 4)


@pytest.mark.parametrize("place", [0, 16_383, 16_384, 16_385, 32_768, 40_000])
def test_a_maximum_at_the_edge_of_a_tile(place: int) -> None:
    logits = np.full((1, 40_001), -1e30)
    logits[0, place] = -1e29
    _check(logits, DType.F32, 1)


def test_work_space_agrees_with_the_documented_examples() -> None:
    assert reduce_max_work_elements(64 * 130, with_index=True) == 264 + 16 + 8
    assert reduce_max_work_elements(64, with_index=True) == 8
    assert reduce_max_work_elements(64 * 511, with_index=False) == 1_024


@settings(max_examples=50)
@given(columns=st.integers(1, 200_000), capacity=st.integers(1, 5_000))
def test_every_plan_fits_local_memory(columns: int, capacity: int) -> None:
    for dtype in (DType.F32, DType.BF16):
        plan = plan_argmax(
            rows=DeviceSize(0, capacity), columns=columns, dtype=dtype, target=TARGET
        )
        assert local_bytes(plan.buffers) <= TARGET.unified_buffer


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_golden(golden: Golden, dtype: DType) -> None:
    plan = plan_argmax(rows=DeviceSize(1, 64), columns=129_280, dtype=dtype, target=TARGET)
    golden.check(f"ascendc/argmax_{dtype.value}.cpp", emit_argmax(plan, "sample_greedy").source)
