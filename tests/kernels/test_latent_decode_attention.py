"""Decode attention and the merge of its splits: checked-in texts, and numbers in the emulator."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import KernelKind
from ascendfx.codegen.ascendc.kernels.combine_attention_splits import (
    emit_combine_attention_splits,
    plan_combine_attention_splits,
)
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import (
    LatentDecodePlan,
    emit_latent_decode_attention,
    plan_latent_decode_attention,
)
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.kernels.attention_case import run_decode
from tests.kernels.attention_shapes import decode_shape

TARGET = find_target("ascend910b3")
F32, BF16 = DType.F32, DType.BF16


PLANS = {
    "f32-8-heads": plan_latent_decode_attention(decode_shape(F32, 8, 64, 16), TARGET, splits=1),
    "f32-1-head-3-splits": plan_latent_decode_attention(
        decode_shape(F32, 1, 24, 8), TARGET, splits=3
    ),
    "bf16-20-heads-2-splits": plan_latent_decode_attention(
        decode_shape(BF16, 20, 144, 32), TARGET, splits=2
    ),
    "bf16-40-heads": plan_latent_decode_attention(decode_shape(BF16, 40, 64, 16), TARGET),
    "f32-peaked": plan_latent_decode_attention(
        decode_shape(F32, 17, 32, 16, spread=100.0), TARGET, splits=4
    ),
    "f32-140-heads": plan_latent_decode_attention(decode_shape(F32, 140, 32, 16), TARGET, splits=2),
}

GOLDEN_PLANS = {
    "latent_decode_attention_v3": plan_latent_decode_attention(
        decode_shape(BF16, 128, 512, 64, rows=8, max_blocks=32), TARGET
    ),
    "latent_decode_attention_f32": PLANS["f32-1-head-3-splits"],
}


@cache
def built(name: str) -> tuple[LatentDecodePlan, BuiltKernel, BuiltKernel]:
    plan = PLANS[name]
    word = name.replace("-", "_")
    combine = plan_combine_attention_splits(plan, TARGET)
    kernels = build_kernels(
        [
            emit_latent_decode_attention(plan, f"decode_{word}"),
            emit_combine_attention_splits(combine, f"combine_{word}"),
        ],
        TARGET,
    )
    return plan, kernels[f"decode_{word}"], kernels[f"combine_{word}"]


@pytest.mark.parametrize("name", GOLDEN_PLANS)
def test_text_is_as_checked_in(name: str, golden: Golden) -> None:
    kernel = emit_latent_decode_attention(GOLDEN_PLANS[name], name)
    golden.check(f"ascendc/{name}.cpp", kernel.source)
    assert kernel.kind is KernelKind.MIX


@pytest.mark.parametrize("name", GOLDEN_PLANS)
def test_text_of_the_merge_is_as_checked_in(name: str, golden: Golden) -> None:
    merge = name.replace("latent_decode_attention", "combine_attention_splits")
    plan = plan_combine_attention_splits(GOLDEN_PLANS[name], TARGET)
    golden.check(f"ascendc/{merge}.cpp", emit_combine_attention_splits(plan, merge).source)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize(
    ("positions", "requests"),
    [
        ([0], [0]),
        ([126, 127, 128, 300], [0, 1, 2, 3]),
        ([509, 511, 510, 0], [3, 3, 3, 1]),
        ([-1, 130, -1], [0, 1, 2]),
        ([], []),
    ],
    ids=["one-key", "ragged", "several-rows-of-a-request", "rows-without-keys", "no-rows"],
)
def test_attends_the_keys_up_to_each_position(
    name: str, positions: list[int], requests: list[int]
) -> None:
    plan, decode, combine = built(name)
    run_decode(plan, decode, combine, positions, requests)


@settings(max_examples=20)
@given(
    name=st.sampled_from(sorted(PLANS)),
    rows=st.lists(st.tuples(st.integers(0, 511), st.integers(0, 3)), max_size=4),
    seed=st.integers(0, 99),
)
def test_attends_any_batch(name: str, rows: list[tuple[int, int]], seed: int) -> None:
    plan, decode, combine = built(name)
    run_decode(plan, decode, combine, [p for p, _ in rows], [r for _, r in rows], seed=seed)


@pytest.mark.parametrize("name", ["bf16-20-heads-2-splits", "f32-peaked"])
def test_the_merge_writes_a_matrix_per_head(name: str) -> None:
    plan, decode, _ = built(name)
    width, rows = plan.shape.latent, plan.shape.rows.capacity
    view = MatrixView(16, width, rows * width + 16, 16 + plan.shape.heads * (rows * width + 16))
    combine = plan_combine_attention_splits(plan, TARGET, out=view)
    merge = build_kernels([emit_combine_attention_splits(combine, "merge_heads")], TARGET)
    run_decode(plan, decode, merge["merge_heads"], [300, 5, 200], [0, 1, 2], out_view=view)
