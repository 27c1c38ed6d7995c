"""Tile choice of the attention kernels, and what it refuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernels.attention_tiles import (
    AttentionTiles,
    TileRequest,
    plan_attention_tiles,
)
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import plan_latent_decode_attention
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from tests.kernels.attention_shapes import decode_shape

TARGET = find_target("ascend910b3")
DEEPSEEK_V3 = TileRequest(
    family="latent-decode-attention",
    dtype=DType.BF16,
    key_widths=(512, 64),
    value_width=512,
    values_are_keys=True,
    lanes=128,
    key_limit=128,
    causal=False,
)

requests = st.builds(
    TileRequest,
    family=st.just("attention"),
    dtype=st.sampled_from([DType.F32, DType.BF16]),
    key_widths=st.tuples(
        st.integers(1, 36).map(lambda n: 16 * n), st.integers(1, 12).map(lambda n: 16 * n)
    ),
    value_width=st.integers(1, 36).map(lambda n: 16 * n),
    values_are_keys=st.just(False),  # noqa: FBT003
    lanes=st.integers(1, 2_000),
    key_limit=st.sampled_from([16, 64, 128, 256]),
    causal=st.booleans(),
)


def test_deepseek_v3_decode_takes_all_heads_and_prefetches_half_blocks() -> None:
    tiles = plan_attention_tiles(DEEPSEEK_V3, TARGET)
    assert (tiles.lanes, tiles.key_tile, tiles.key_slots) == (128, 64, 4)
    assert (tiles.k_step, tiles.n_step) == (128, 128)


def test_float_takes_fewer_heads_and_keys_at_a_time() -> None:
    tiles = plan_attention_tiles(replace(DEEPSEEK_V3, dtype=DType.F32), TARGET)
    assert (tiles.lanes, tiles.key_tile) == (64, 32)


@given(requests)
def test_every_tile_fits_and_no_larger_one_does(request: TileRequest) -> None:
    tiles = plan_attention_tiles(request, TARGET)
    _check_memory(tiles)
    assert request.key_limit % tiles.key_tile == 0
    assert tiles.lanes % 16 == 0
    assert tiles.k_step % tiles.fractal_columns == 0
    assert tiles.n_step % 16 == 0
    count = -(-request.lanes // tiles.lanes)
    assert count * tiles.lanes - request.lanes < 16 * count  # heads are spread evenly


def _check_memory(tiles: AttentionTiles) -> None:
    size, half = tiles.dtype.bytes, TARGET.l0a_buffer // 2
    assert tiles.l1_bytes <= TARGET.l1_buffer
    assert tiles.unified_bytes <= TARGET.unified_buffer
    assert max(tiles.key_tile, tiles.lanes) * tiles.k_step * size <= half
    assert tiles.key_tile * max(tiles.lanes, tiles.n_step) * size <= half
    assert tiles.lanes * max(tiles.key_tile, tiles.n_step) * 4 <= TARGET.l0c_buffer // 2


def test_an_odd_head_is_refused() -> None:
    with pytest.raises(GraphError) as error:
        plan_attention_tiles(replace(DEEPSEEK_V3, key_widths=(512, 24)), TARGET)
    assert error.value.code == "unaligned-head"
    assert error.value.reason == (
        "latent-decode-attention: a vector of 24 bf16 is 48 bytes, not a positive multiple of 32"
    )


def test_another_format_is_refused() -> None:
    with pytest.raises(GraphError, match="f16 is neither f32 nor bf16"):
        plan_attention_tiles(replace(DEEPSEEK_V3, dtype=DType.F16), TARGET)


def test_a_value_beyond_the_repeat_stride_is_refused() -> None:
    with pytest.raises(GraphError, match=r"values of 2048 columns, .* at most 2040"):
        plan_attention_tiles(replace(DEEPSEEK_V3, value_width=2_048), TARGET)


def test_a_head_that_does_not_fit_is_refused_with_numbers() -> None:
    wide = replace(DEEPSEEK_V3, key_widths=(2_032, 16_384), value_width=2_032)
    with pytest.raises(GraphError) as error:
        plan_attention_tiles(wide, TARGET)
    assert error.value.reason == (
        "latent-decode-attention: a tile of 16 queries and 16 keys needs 2,357,760 bytes of L1 "
        "and 147,648 bytes of UB, ascend910b3 has 524,032 and 188,160"
    )


def test_heads_too_far_apart_are_refused() -> None:
    shape = decode_shape(DType.BF16, 4, 64, 16)
    shape = replace(shape, q_latent=MatrixView(0, 4 * 70_000, 70_000))
    with pytest.raises(GraphError, match="rows of `q_latent` are 70000 elements apart"):
        plan_latent_decode_attention(shape, TARGET)


def test_splits_keep_every_group_busy_but_not_more() -> None:
    few = plan_latent_decode_attention(decode_shape(DType.BF16, 128, 512, 64, rows=4), TARGET)
    assert (few.splits, few.groups) == (4, 16)  # 4 cache blocks allow no more
    many = plan_latent_decode_attention(decode_shape(DType.BF16, 128, 512, 64, rows=64), TARGET)
    assert (many.splits, many.groups) == (1, 20)
