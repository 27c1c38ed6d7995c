"""Decode attention of rows in draft trees: the numbers of their paths, bit for bit a chain's."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernels.combine_attention_splits import (
    emit_combine_attention_splits,
    plan_combine_attention_splits,
)
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import (
    LatentDecodePlan,
    emit_latent_decode_attention,
    plan_latent_decode_attention,
)
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.ir.tree_cases import ancestors_of, trees
from tests.kernels.attention_case import run_decode
from tests.kernels.attention_shapes import decode_shape

TARGET = find_target("ascend910b3")
F32, BF16 = DType.F32, DType.BF16
ROWS, CONTEXT = 32, 512


def _plan(dtype: DType, heads: int, widths: tuple[int, int], splits: int) -> LatentDecodePlan:
    shape = decode_shape(dtype, heads, *widths, rows=ROWS, spread=3.0, tree=True)
    return plan_latent_decode_attention(shape, TARGET, splits=splits)


PLANS = {
    "f32-1-head-3-splits": _plan(F32, 1, (24, 8), 3),
    "f32-17-heads": _plan(F32, 17, (32, 16), 1),
    "bf16-20-heads-2-splits": _plan(BF16, 20, (144, 32), 2),
    "bf16-40-heads-4-splits": _plan(BF16, 40, (64, 16), 4),
}


@cache
def built(name: str) -> tuple[LatentDecodePlan, BuiltKernel, BuiltKernel, BuiltKernel]:
    """Return the plan, its kernel, the kernel without a tree, and the merge of splits."""
    plan, word = PLANS[name], name.replace("-", "_")
    combine = plan_combine_attention_splits(plan, TARGET)
    plain = replace(plan, shape=replace(plan.shape, tree=False))
    kernels = build_kernels(
        [
            emit_latent_decode_attention(plan, f"tree_{word}"),
            emit_latent_decode_attention(plain, f"plain_{word}"),
            emit_combine_attention_splits(combine, f"combine_{word}"),
        ],
        TARGET,
    )
    return plan, kernels[f"tree_{word}"], kernels[f"plain_{word}"], kernels[f"combine_{word}"]


def test_text_is_as_checked_in(golden: Golden) -> None:
    name = "latent_decode_attention_tree"
    kernel = emit_latent_decode_attention(PLANS["bf16-20-heads-2-splits"], name)
    golden.check(f"ascendc/{name}.cpp", kernel.source)


LENGTHS = st.one_of(
    st.integers(0, CONTEXT - 16),
    st.sampled_from([0, 112, 127, 128, 240, 255, 256, 383, CONTEXT - 16]),
)


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=12)
@given(
    requests=st.lists(st.tuples(LENGTHS, trees()), min_size=1, max_size=2),
    seed=st.integers(0, 99),
)
def test_each_row_attends_to_its_path(
    name: str, requests: list[tuple[int, tuple[int, ...]]], seed: int
) -> None:
    plan, decode, _, combine = built(name)
    rows = [
        (length + nodes.bit_count() - 1, 5 + request, nodes)
        for request, (length, parents) in enumerate(requests)
        for nodes in ancestors_of(parents)
    ]
    positions, row_request, ancestors = (list(column) for column in zip(*rows, strict=True))
    run_decode(plan, decode, combine, positions, row_request, ancestors=ancestors, seed=seed)


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=6)
@given(length=LENGTHS, parents=trees(), data=st.data())
def test_a_path_has_the_bits_of_a_chain(
    name: str, length: int, parents: tuple[int, ...], data: st.DataObject
) -> None:
    plan, decode, plain, combine = built(name)
    nodes = data.draw(st.sampled_from(ancestors_of(parents)))
    rows = [length + nodes.bit_count() - 1], [3]
    found = run_decode(plan, decode, combine, *rows, ancestors=[nodes])
    assert found == run_decode(plan, plain, combine, *rows)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("length", [0, 120, 250, CONTEXT - 16])
def test_chains_have_the_bits_of_the_kernel_without_a_tree(name: str, length: int) -> None:
    plan, decode, plain, combine = built(name)
    rows = [*range(length, length + 16), 40, -1], [2] * 16 + [4, 1]
    wanted = run_decode(plan, plain, combine, *rows)
    for chain in ([2 ** (i + 1) - 1 for i in range(16)], [0] * 16):
        assert run_decode(plan, decode, combine, *rows, ancestors=[*chain, 0, 0]) == wanted
