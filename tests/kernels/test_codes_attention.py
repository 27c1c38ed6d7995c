"""Decode attention over a latent cache of codes: as over the numbers that they stand for."""

from dataclasses import replace
from functools import cache

import pytest

from ascendfx.codegen.ascendc.kernels.combine_attention_splits import (
    emit_combine_attention_splits,
    plan_combine_attention_splits,
)
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import (
    LatentDecodePlan,
    LatentDecodeShape,
    emit_latent_decode_attention,
    plan_latent_decode_attention,
)
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.kernels.attention_case import run_decode
from tests.kernels.attention_shapes import decode_shape

TARGET = find_target("ascend910b3")
F32, BF16 = DType.F32, DType.BF16

SHAPES = {
    "bf16-20-heads": decode_shape(BF16, 20, 160, 32, max_blocks=8, codes=True),
    "f32-17-heads": decode_shape(F32, 17, 32, 16, spread=100.0, codes=True),
    "bf16-tree": decode_shape(BF16, 36, 96, 16, codes=True, tree=True),
    "f32-tree": decode_shape(F32, 4, 32, 16, max_blocks=8, codes=True, tree=True),
}
ROWS = {
    "one-key": ([0], [0]),
    "ragged": ([126, 127, 128, 300], [0, 1, 2, 3]),
    "more-steps-than-slots": ([1000, 20, 640, 127], [0, 1, 2, 3]),
    "several-rows-of-a-request": ([509, 511, 510, 7], [3, 3, 3, 1]),
    "rows-without-keys": ([-1, 130, -1], [0, 1, 2]),
}
IN_TREE = [126, 128, 496, 20], [0, 1, 3, 2]
NODES = [0b1001, 0b1000_0000_0000_0101, 0b1111, 0]


@cache
def built(
    shape: LatentDecodeShape, splits: int
) -> tuple[LatentDecodePlan, BuiltKernel, BuiltKernel]:
    plan = plan_latent_decode_attention(shape, TARGET, splits=splits)
    kernels = build_kernels(
        [
            emit_latent_decode_attention(plan, "decode"),
            emit_combine_attention_splits(plan_combine_attention_splits(plan, TARGET), "combine"),
        ],
        TARGET,
    )
    return plan, kernels["decode"], kernels["combine"]


@pytest.mark.parametrize("rows", ROWS)
def test_attends_to_what_codes_stand_for(rows: str) -> None:
    run_decode(*built(SHAPES["bf16-20-heads"], 1), *ROWS[rows])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if each == "f32-tree" else pytest.mark.nightly)
        for each in SHAPES
    ],
)
def test_results_are_those_of_a_cache_of_numbers_bit_for_bit(name: str) -> None:
    shape = SHAPES[name]
    positions, requests = IN_TREE
    if shape.max_blocks == 8:  # more steps than slots
        positions = [900, *positions[1:]]
    nodes = NODES if shape.tree else None
    found = [
        run_decode(*built(each, 1), positions, requests, ancestors=nodes, decoded_cache=True)
        for each in (shape, replace(shape, codes=False))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("tree", [False, True])
def test_text_is_as_checked_in(golden: Golden, tree: bool) -> None:  # noqa: FBT001  # of a parameter
    shape = decode_shape(BF16, 128, 512, 64, rows=8, max_blocks=32, codes=True, tree=tree)
    name = f"latent_decode_attention_codes{'_tree' * tree}"
    plan = plan_latent_decode_attention(shape, TARGET)
    golden.check(f"ascendc/{name}.cpp", emit_latent_decode_attention(plan, name).source)


def test_a_vector_of_codes_that_is_no_multiple_of_32_bytes_is_refused() -> None:
    with pytest.raises(GraphError, match="a vector of 144 codes is not a positive multiple of 32"):
        plan_latent_decode_attention(decode_shape(BF16, 4, 144, 16, codes=True), TARGET)
