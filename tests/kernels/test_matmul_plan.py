"""Plans of the cube families: they fit every chip, and refuse with numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.cube_tile_plan import CubeTile, tile_memory
from ascendfx.codegen.ascendc.kernels.grouped_matmul import (
    GroupedMatmulPlan,
    plan_grouped_matmul,
)
from ascendfx.codegen.ascendc.kernels.matmul import MatmulPlan, plan_matmul
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView, dense
from ascendfx.codegen.ascendc.target import Target, find_target, target_names
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

ASCEND_910B3 = find_target("ascend910b3")

targets = st.sampled_from([find_target(name) for name in target_names()])
formats = st.sampled_from(
    [
        (DType.F32, DType.F32),
        (DType.BF16, DType.BF16),
        (DType.BF16, DType.F32),
        (DType.I8, DType.I32),
    ]
)
layouts = st.sampled_from(["nk", "nz"])
wide = st.one_of(st.integers(1, 600), st.sampled_from([7_168, 18_432, 65_535]))
shapes = st.tuples(st.one_of(st.integers(1, 300), st.sampled_from([4_096, 32_768])), wide, wide)


def assert_fits(plan: MatmulPlan | GroupedMatmulPlan, target: Target) -> None:
    memory = plan.memory
    assert memory == tile_memory(plan.product, plan.tile, target)
    assert memory.l1 <= target.l1_buffer
    assert memory.l0a <= target.l0a_buffer
    assert memory.l0b <= target.l0b_buffer
    assert memory.l0c <= target.l0c_buffer
    assert 1 <= plan.blocks <= target.cube_cores
    assert_instruction_ranges(plan)


def assert_instruction_ranges(plan: MatmulPlan | GroupedMatmulPlan) -> None:
    """Ranges of asc-devkit's pages of the copy, load, Mmad and Fixpipe calls, for every call."""
    tile, k0 = plan.tile, plan.product.k0
    assert all(size % 16 == 0 for size in (tile.m, tile.n, tile.l1_k, tile.l0_k))
    assert tile.l1_k % k0 == 0
    assert tile.l0_k % k0 == 0
    assert max(tile.m, tile.n, tile.l0_k) <= 4_095  # Mmad, nSize of Fixpipe
    assert tile.l0_k // k0 * max(1, tile.n // 16) <= 255  # repeatTimes of LoadData
    assert tile.l0_k // k0 <= 255
    assert tile.l1_k // k0 <= 4_095  # blockCount of DataCopy
    assert max(tile.m, tile.n) <= 16_384  # dstNzC0Stride


@given(targets, formats, layouts, shapes, st.integers(1, 4))
def test_every_plan_fits_every_target(
    target: Target,
    dtypes: tuple[DType, DType],
    b_layout: str,
    shape: tuple[int, int, int],
    batch: int,
) -> None:
    (dtype, out_dtype), (rows, n, k) = dtypes, shape
    plan = plan_matmul(
        rows=DeviceSize(0, rows), n=n, k=k, dtype=dtype, out_dtype=out_dtype,
        target=target, batch=batch, b_layout=b_layout,
    )  # fmt: skip
    assert_fits(plan, target)


@given(targets, formats, layouts, shapes, st.integers(1, 300))
def test_every_grouped_plan_fits_every_target(
    target: Target,
    dtypes: tuple[DType, DType],
    b_layout: str,
    shape: tuple[int, int, int],
    experts: int,
) -> None:
    (dtype, out_dtype), (pairs, n, k) = dtypes, shape
    plan = plan_grouped_matmul(
        pairs=pairs, experts=experts, n=n, k=k, dtype=dtype, out_dtype=out_dtype,
        target=target, b_layout=b_layout,
    )  # fmt: skip
    assert_fits(plan, target)
    assert not plan.tile.x_stays


def test_decode_streams_the_weight_and_keeps_x() -> None:
    plan = plan_matmul(
        rows=DeviceSize(0, 16), n=7_168, k=2_048, dtype=DType.BF16, target=ASCEND_910B3
    )
    assert plan.tile.m == 16
    assert plan.tile.x_stays
    assert plan.blocks == ASCEND_910B3.cube_cores


def test_a_large_product_gets_the_published_tile() -> None:
    # asc-devkit, sample matmul_high_performance: its fastest row uses 128 x 256 x 64.
    plan = plan_matmul(rows=8_192, n=8_192, k=8_192, dtype=DType.BF16, target=ASCEND_910B3)
    assert (plan.tile.m, plan.tile.n, plan.tile.l0_k) == (128, 256, 64)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 6), st.data())
def test_overlap_is_found_for_every_small_view(
    rows: int, columns: int, batch: int, data: st.DataObject
) -> None:
    row_stride, batch_stride = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    view = MatrixView(0, row_stride, batch_stride)
    b, r, c = np.ogrid[:batch, :rows, :columns]
    used = (b * batch_stride + r * row_stride + c).ravel()
    shares = len(np.unique(used)) < used.size
    if shares:
        assert view.overlaps(rows=rows, columns=columns, batch=batch)
    assert view.extent(rows=rows, columns=columns, batch=batch) == used.max() + 1


def test_heads_inside_a_row_do_not_overlap() -> None:
    assert not MatrixView(0, 16 * 192, 192).overlaps(rows=4, columns=128, batch=16)
    assert not dense(4, 128, batch=16).overlaps(rows=4, columns=128, batch=16)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "matmul: n is 0"),
        (
            {"k": 70_000},
            "matmul: rows of x are 70,000 elements apart; the copy to L1 takes 1 to 65,535",
        ),
        (
            {"b": MatrixView(0, 129_280)},
            "matmul: rows of W are 129,280 elements apart; the copy to L1 takes 1 to 65,535",
        ),
        (
            {"dtype": DType.F32, "out_dtype": DType.BF16},
            "matmul: no instruction multiplies f32 by f32 to bf16",
        ),
        (
            {"dtype": DType.I8, "out_dtype": DType.BF16},
            "matmul: no instruction multiplies i8 by i8 to bf16",
        ),
        (
            {"dtype": DType.I8, "tile": CubeTile(16, 16, 64, 48)},
            "matmul: tile 16 x 16 with k steps 64 and 48: m and n must be multiples of 16, "
            "the steps of 32, the second step not above the first",
        ),
        ({"b_layout": "zn"}, "no weight layout is called `zn`"),
        (
            {"y": MatrixView(0, 100)},
            "matmul: rows of 512 elements overlap in y: row stride 100, batch stride 0",
        ),
        (
            {"a": MatrixView(8, 256, 0, 16 * 256)},
            "matmul: the view of x ends at element 4,104, the tensor has 4,096",
        ),
        (
            {"tile": CubeTile(128, 256, 1_024, 64)},
            "matmul: tile 128 x 256 with k steps 1024 and 64 needs 1,572,864 bytes of L1, "
            "ascend910b3 has 524,032",
        ),
        (
            {"tile": CubeTile(16, 24, 64, 64)},
            "matmul: tile 16 x 24 with k steps 64 and 64: all four must be multiples of 16, "
            "the second step not above the first",
        ),
        (
            {"batch": 2, "tile": CubeTile(16, 16, 64, 64, x_stays=True)},
            "matmul: x cannot stay in L1: batch 2, 16 rows, tile of 16 rows",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_done_is_refused_with_numbers(
    changes: dict[str, object], message: str
) -> None:
    arguments: dict[str, object] = {"n": 512, "k": 256, "dtype": DType.BF16}
    with pytest.raises(GraphError) as error:
        plan_matmul(rows=16, target=ASCEND_910B3, **arguments | changes)  # pyright: ignore[reportArgumentType]
    assert error.value.reason == message
