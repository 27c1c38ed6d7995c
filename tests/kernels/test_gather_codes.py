"""Cached codes as numbers: checked-in text, refusals, and numbers in the emulator."""

from functools import cache

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.gather_codes import (
    GatherCodesPlan,
    emit_gather_codes,
    plan_gather_codes,
)
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.kernels.attention_case import decoded, device_sizes

TARGET = find_target("ascend910b3")


def _plan(dtype: DType, columns: int, context: int, max_blocks: int = 5) -> GatherCodesPlan:
    return plan_gather_codes(
        context=DeviceSize(2, context), columns=columns, cache_blocks=9, max_blocks=max_blocks,
        dtype=dtype, target=TARGET,
    )  # fmt: skip


PLANS = {"f32": _plan(DType.F32, 96, 500), "bf16": _plan(DType.BF16, 512, 640)}


@cache
def built(name: str) -> BuiltKernel:
    return build_kernels([emit_gather_codes(PLANS[name], name)], TARGET)[name]


def test_text_is_as_checked_in(golden: Golden) -> None:
    golden.check(
        "ascendc/gather_codes.cpp", emit_gather_codes(PLANS["bf16"], "gather_codes").source
    )


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("context", [0, 1, 33, 300, 500])
def test_each_token_is_its_codes_times_its_scale_rounded_once(name: str, context: int) -> None:
    plan = PLANS[name]
    random = np.random.default_rng(context)
    codes = random.integers(-127, 128, (9 * 128, plan.columns)).astype(np.int8)
    scales = random.random(9 * 128).astype(np.float32)
    table = random.permutation(9)[: plan.max_blocks].astype(np.int32)
    y = np.full((plan.context.capacity, plan.columns), np.nan, plan.dtype.numpy)
    sizes = device_sizes(context=context)
    built(name).launch([codes.reshape(-1), scales, table, y.reshape(-1), sizes])
    wanted = decoded(codes, scales, plan.dtype).reshape(9, 128, -1)[table]
    np.testing.assert_array_equal(y[:context], wanted.reshape(-1, plan.columns)[:context])
    assert np.isnan(y[context:].astype(np.float64)).all()


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(GraphError, match="a row of 40 codes is no multiple of 32"):
        _plan(DType.F32, 40, 100)
    with pytest.raises(GraphError, match="2 blocks of 128 tokens hold 256 tokens, the context"):
        _plan(DType.F32, 64, 300, max_blocks=2)
