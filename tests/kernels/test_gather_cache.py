"""The cache gather: checked-in text, refusals, and numbers in the emulator."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.gather_cache import (
    GatherCachePlan,
    emit_gather_cache,
    plan_gather_cache,
)
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.kernels.attention_case import device_sizes

TARGET = find_target("ascend910b3")


def _plan(dtype: DType, columns: int, context: int) -> GatherCachePlan:
    return plan_gather_cache(
        context=DeviceSize(2, context), columns=columns, cache_blocks=9,
        max_blocks=-(-context // 128), dtype=dtype, target=TARGET,
    )  # fmt: skip


PLANS = {
    "f32": _plan(DType.F32, 24, 500),
    "f32-odd": _plan(DType.F32, 5, 300),
    "bf16": _plan(DType.BF16, 512, 640),
    "bf16-odd": _plan(DType.BF16, 7, 130),
}


@cache
def built(name: str) -> tuple[GatherCachePlan, BuiltKernel]:
    word = f"gather_cache_{name.replace('-', '_')}"
    return PLANS[name], build_kernels([emit_gather_cache(PLANS[name], word)], TARGET)[word]


def test_text_is_as_checked_in(golden: Golden) -> None:
    kernel = emit_gather_cache(PLANS["bf16"], "gather_cache")
    golden.check("ascendc/gather_cache.cpp", kernel.source)


def test_a_table_that_cannot_hold_the_context_is_refused() -> None:
    with pytest.raises(GraphError) as error:
        plan_gather_cache(
            context=DeviceSize(2, 300), columns=8, cache_blocks=9, max_blocks=2, dtype=DType.F32,
            target=TARGET,
        )  # fmt: skip
    assert error.value.reason == (
        "gather-cache: 2 blocks of 128 tokens hold 256 tokens, the context may have 300"
    )


def test_a_row_that_does_not_fit_is_refused() -> None:
    with pytest.raises(GraphError, match="gather-cache needs 200,064 bytes of unified buffer"):
        _plan(DType.F32, 25_004, 100)


@settings(max_examples=25)
@given(name=st.sampled_from(sorted(PLANS)), data=st.data())
def test_moves_the_rows_of_the_request_in_order(name: str, data: st.DataObject) -> None:
    plan, kernel = built(name)
    context = data.draw(st.integers(0, plan.context.capacity))
    random = np.random.default_rng(context)
    shape = (plan.cache_blocks, plan.block_tokens, plan.columns)
    cached = random.standard_normal(shape).astype(plan.dtype.numpy)
    table = random.permutation(plan.cache_blocks)[: plan.max_blocks].astype(np.int32)
    y = np.full((plan.context.capacity, plan.columns), np.nan, plan.dtype.numpy)
    kernel.launch([cached.reshape(-1), table, y.reshape(-1), device_sizes(context=context)])
    rows = cached[table].reshape(-1, plan.columns)[:context]
    np.testing.assert_array_equal(y[:context], rows)
    assert np.isnan(y[context:].astype(np.float64)).all()
