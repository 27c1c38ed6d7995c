"""The matmul kernels: checked-in texts, and their numbers in the emulator."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize, KernelKind
from ascendfx.codegen.ascendc.kernels.cube_tile_plan import CubeTile
from ascendfx.codegen.ascendc.kernels.matmul import MatmulPlan, emit_matmul, plan_matmul
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.kernels.matmul_case import run_matmul

TARGET = find_target("ascend910b3")
F32, BF16, I32 = DType.F32, DType.BF16, DType.I32
I8, I4X2 = DType.I8, DType.I4X2
SMALL = CubeTile(32, 32, 32, 16)  # several tiles, k steps and parts on small shapes

GOLDEN_PLANS = {
    "matmul_decode": plan_matmul(
        rows=DeviceSize(0, 16), n=7_168, k=2_048, dtype=BF16, target=TARGET
    ),
    "matmul_prefill": plan_matmul(
        rows=DeviceSize(0, 2_048), n=7_168, k=2_048, dtype=BF16, target=TARGET
    ),
    "matmul_heads": plan_matmul(
        rows=DeviceSize(0, 16), n=512, k=128, batch=16, dtype=F32, target=TARGET,
        a=MatrixView(0, 16 * 192, 192), y=MatrixView(0, 16 * 576, 576),
    ),
    "matmul_vocabulary": plan_matmul(
        rows=DeviceSize(1, 16), n=129_280, k=7_168, b_layout="nz", dtype=BF16, out_dtype=F32,
        target=TARGET,
    ),
    "matmul_decode_i8": plan_matmul(
        rows=DeviceSize(0, 16), n=7_168, k=2_048, b_layout="nz", dtype=I8, target=TARGET
    ),
    "matmul_decode_i4": plan_matmul(
        rows=DeviceSize(0, 16), n=7_168, k=1_024, b_layout="nz", dtype=I4X2, target=TARGET, each=2
    ),
}  # fmt: skip

CASES = {
    f"{dtype.value}-{out.value}-{b_layout}": plan_matmul(
        rows=DeviceSize(0, 70),
        n=50,
        k=90,
        dtype=dtype,
        out_dtype=out,
        b_layout=b_layout,
        target=TARGET,
        tile=SMALL,
    )
    for dtype, out in ((F32, F32), (BF16, BF16), (BF16, F32))
    for b_layout in ("nk", "nz")
} | {
    "x-stays-f32": plan_matmul(
        rows=DeviceSize(2, 20),
        n=300,
        k=90,
        dtype=F32,
        target=TARGET,
        tile=CubeTile(32, 32, 48, 32, x_stays=True),
    ),
    "x-stays-bf16": plan_matmul(
        rows=DeviceSize(0, 20),
        n=300,
        k=90,
        dtype=BF16,
        b_layout="nz",
        target=TARGET,
        tile=CubeTile(32, 32, 48, 32, x_stays=True),
    ),
    "heads": plan_matmul(
        rows=DeviceSize(0, 18),
        n=40,
        k=24,
        batch=3,
        dtype=F32,
        target=TARGET,
        a=MatrixView(8, 3 * 40, 40),
        y=MatrixView(4, 3 * 48 + 5, 48),
    ),
    "planned-f32": plan_matmul(rows=DeviceSize(0, 40), n=300, k=520, dtype=F32, target=TARGET),
    "planned-bf16": plan_matmul(rows=DeviceSize(0, 40), n=300, k=520, dtype=BF16, target=TARGET),
    "large-tile": plan_matmul(
        rows=DeviceSize(0, 200),
        n=300,
        k=300,
        dtype=BF16,
        target=TARGET,
        tile=CubeTile(128, 256, 256, 64),
    ),
}
CASES |= {
    f"i8-{b_layout}": plan_matmul(
        rows=DeviceSize(0, 70), n=50, k=180, dtype=I8, b_layout=b_layout, target=TARGET,
        tile=CubeTile(32, 32, 64, 32),
    )
    for b_layout in ("nk", "nz")
} | {
    "i8-heads": plan_matmul(
        rows=DeviceSize(0, 18), n=40, k=56, batch=3, dtype=I8, target=TARGET,
        a=MatrixView(8, 3 * 60, 60), y=MatrixView(4, 3 * 48 + 5, 48),
    ),
    "x-stays-i8": plan_matmul(
        rows=DeviceSize(0, 20), n=300, k=180, dtype=I8, b_layout="nz", target=TARGET,
        tile=CubeTile(32, 32, 96, 64, x_stays=True),
    ),
    "planned-i8": plan_matmul(rows=DeviceSize(0, 40), n=300, k=1_030, dtype=I8, target=TARGET),
    "i4-digits": plan_matmul(
        rows=DeviceSize(0, 35), n=50, k=90, dtype=I4X2, b_layout="nz", target=TARGET, each=2,
        tile=CubeTile(32, 32, 64, 32),
    ),
    "far-blocks": plan_matmul(
        rows=DeviceSize(0, 2), n=65_570, k=20, dtype=BF16, b_layout="nz", target=TARGET,
    ),
}  # fmt: skip


@cache
def built_case(name: str) -> BuiltKernel:
    kernel_name = f"matmul_{name.replace('-', '_')}"
    kernel = emit_matmul(CASES[name], kernel_name)
    return build_kernels([kernel], TARGET)[kernel_name]


@pytest.mark.parametrize("name", GOLDEN_PLANS)
def test_text_is_the_checked_in_text(name: str, golden: Golden) -> None:
    kernel = emit_matmul(GOLDEN_PLANS[name], name)
    assert kernel.kind is KernelKind.CUBE
    golden.check(f"ascendc/{name}.cpp", kernel.source)


@pytest.mark.parametrize("name", CASES)
def test_product_is_within_the_rounding_bound(name: str) -> None:
    plan, built = CASES[name], built_case(name)
    capacity = plan.product.rows
    for rows in sorted({0, 1, 2, 16, 17, 33, capacity - 1, capacity}):
        if rows <= capacity and rows % plan.each == 0:
            run_matmul(built, plan, rows, seed=rows)


@given(rows=st.integers(0, 70), seed=st.integers(0, 1_000), name=st.sampled_from(sorted(CASES)))
@settings(max_examples=20)
def test_any_row_count_is_right(rows: int, seed: int, name: str) -> None:
    plan = CASES[name]
    run_matmul(built_case(name), plan, min(rows, plan.product.rows) // plan.each * plan.each, seed)


tile_sizes = st.sampled_from([16, 32, 48, 64])


@st.composite
def plans(draw: st.DrawFn) -> MatmulPlan:
    """Draw shapes, formats, layouts, views and tiles."""
    rows, n, k = draw(st.integers(1, 60)), draw(st.integers(1, 70)), draw(st.integers(1, 100))
    batch = draw(st.integers(1, 3))
    dtype, out_dtype = draw(
        st.sampled_from([(F32, F32), (BF16, BF16), (BF16, F32), (I8, I32), (I4X2, I32)])
    )
    gap = draw(st.integers(0, 9))
    l0_k = draw(st.sampled_from([32, 64]) if dtype in (I8, I4X2) else tile_sizes)
    tile = CubeTile(draw(tile_sizes), draw(tile_sizes), l0_k * draw(st.integers(1, 3)), l0_k)
    return plan_matmul(
        rows=draw(st.sampled_from([rows, DeviceSize(0, rows)])), n=n, k=k, batch=batch,
        dtype=dtype, out_dtype=out_dtype, b_layout=draw(st.sampled_from(["nk", "nz"])),
        a=MatrixView(gap, batch * (k + gap), k + gap) if draw(st.booleans()) else None,
        y=MatrixView(gap, batch * (n + gap), n + gap) if draw(st.booleans()) else None,
        target=TARGET, tile=draw(st.sampled_from([tile, None])),
    )  # fmt: skip


@given(plan=plans())
@settings(max_examples=5)
def test_any_shape_is_right(plan: MatmulPlan) -> None:
    built = build_kernels([emit_matmul(plan, "matmul_any")], TARGET)["matmul_any"]
    device_rows = isinstance(plan.rows, DeviceSize)
    for rows in {1, plan.product.rows} if device_rows else {plan.product.rows}:
        run_matmul(built, plan, rows)


@pytest.mark.nightly
@given(plan=plans())
@settings(max_examples=200)
def test_any_shape_is_right_at_night(plan: MatmulPlan) -> None:
    built = build_kernels([emit_matmul(plan, "matmul_any")], TARGET)["matmul_any"]
    run_matmul(built, plan, plan.product.rows)


def test_rows_beyond_the_actual_count_are_not_read() -> None:
    plan, built = CASES["f32-f32-nk"], built_case("f32-f32-nk")
    run_matmul(built, plan, 3)  # x holds NaN from row 3 on, which Mmad must not see
    assert plan.product.rows > 3


def test_text_is_the_same_every_time() -> None:
    plan = CASES["heads"]
    assert emit_matmul(plan, "m").source == emit_matmul(plan, "m").source
    assert np.all([len(line) <= 100 for line in emit_matmul(plan, "m").source.splitlines()])
