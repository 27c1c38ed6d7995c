"""Prefill attention: checked-in text, and numbers in the emulator."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import KernelKind
from ascendfx.codegen.ascendc.kernels.chunked_prefill_attention import (
    ChunkedPrefillPlan,
    emit_chunked_prefill_attention,
    plan_chunked_prefill_attention,
)
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.kernels.attention_case import run_prefill
from tests.kernels.attention_shapes import prefill_shape

TARGET = find_target("ascend910b3")
F32, BF16 = DType.F32, DType.BF16


def _plan(
    dtype: DType, heads: int, widths: tuple[int, int, int], rows: int, spread: float = 1.0
) -> ChunkedPrefillPlan:
    shape = prefill_shape(dtype, heads, widths, rows=rows, context=420, spread=spread)
    return plan_chunked_prefill_attention(shape, TARGET)


PLANS = {
    "f32": _plan(F32, 2, (16, 8, 24), 150),
    "f32-wide-value": _plan(F32, 1, (8, 16, 200), 40),
    "bf16": _plan(BF16, 3, (48, 16, 32), 150),
    "f32-peaked": _plan(F32, 2, (32, 16, 16), 150, 100.0),
    "bf16-few-rows": _plan(BF16, 2, (16, 16, 80), 20),
}

GOLDEN_PLANS = {
    "chunked_prefill_attention_v3": plan_chunked_prefill_attention(
        prefill_shape(BF16, 128, (128, 64, 128), rows=512, context=4_096), TARGET
    ),
    "chunked_prefill_attention_f32": PLANS["f32"],
}


@cache
def built(name: str) -> tuple[ChunkedPrefillPlan, BuiltKernel]:
    plan = PLANS[name]
    word = f"prefill_{name.replace('-', '_')}"
    kernel = emit_chunked_prefill_attention(plan, word)
    return plan, build_kernels([kernel], TARGET)[word]


@pytest.mark.parametrize("name", GOLDEN_PLANS)
def test_text_is_as_checked_in(name: str, golden: Golden) -> None:
    kernel = emit_chunked_prefill_attention(GOLDEN_PLANS[name], name)
    golden.check(f"ascendc/{name}.cpp", kernel.source)
    assert kernel.kind is KernelKind.MIX


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(
    ("start", "rows"), [(0, 1), (0, 16), (127, 1), (128, 20), (250, 19), (0, 0)]
)
def test_attends_earlier_tokens_and_the_chunk_itself(name: str, start: int, rows: int) -> None:
    plan, kernel = built(name)
    run_prefill(plan, kernel, start, rows)


@pytest.mark.parametrize("name", ["f32", "bf16"])
@pytest.mark.parametrize(("start", "rows"), [(0, 150), (0, 129), (3, 128), (270, 150)])
def test_attends_a_chunk_of_several_tiles(name: str, start: int, rows: int) -> None:
    plan, kernel = built(name)
    run_prefill(plan, kernel, start, rows)


@settings(max_examples=20)
@given(
    name=st.sampled_from(sorted(PLANS)),
    start=st.integers(0, 270),
    rows=st.integers(1, 150),
    seed=st.integers(0, 99),
)
def test_attends_any_chunk(name: str, start: int, rows: int, seed: int) -> None:
    plan, kernel = built(name)
    run_prefill(plan, kernel, start, min(rows, plan.shape.rows.capacity), seed)
