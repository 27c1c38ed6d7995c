"""The grouped matmul kernels: checked-in text, and their numbers in the emulator."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernels.cube_tile_plan import CubeTile
from ascendfx.codegen.ascendc.kernels.grouped_matmul import (
    GroupedMatmulPlan,
    emit_grouped_matmul,
    plan_grouped_matmul,
)
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.golden_file import Golden
from tests.kernels.matmul_case import run_grouped_matmul

TARGET = find_target("ascend910b3")
F32, BF16, I8, I4X2 = DType.F32, DType.BF16, DType.I8, DType.I4X2
SMALL = CubeTile(16, 32, 32, 16)

CASES = {
    f"{dtype.value}-{b_layout}": plan_grouped_matmul(
        pairs=60, experts=9, n=70, k=50, dtype=dtype, b_layout=b_layout, target=TARGET, tile=SMALL
    )
    for dtype in (F32, BF16)
    for b_layout in ("nk", "nz")
} | {
    f"i8-{b_layout}": plan_grouped_matmul(
        pairs=60, experts=9, n=70, k=100, dtype=I8, b_layout=b_layout, target=TARGET,
        tile=CubeTile(16, 32, 64, 32),
    )
    for b_layout in ("nk", "nz")
} | {
    "i4-digits": plan_grouped_matmul(
        pairs=60, experts=9, n=70, k=100, dtype=I4X2, b_layout="nz", target=TARGET, each=2,
        tile=CubeTile(16, 32, 64, 32),
    ),
    "planned-i8": plan_grouped_matmul(
        pairs=60, experts=9, n=70, k=700, dtype=I8, b_layout="nz", target=TARGET
    ),
    "planned": plan_grouped_matmul(pairs=60, experts=9, n=70, k=50, dtype=BF16, target=TARGET),
    "views": plan_grouped_matmul(
        pairs=60, experts=9, n=70, k=50, dtype=BF16, out_dtype=F32, target=TARGET,
        a=MatrixView(3, 64), y=MatrixView(5, 81),
    ),
}  # fmt: skip
EXPERTS = 9


@cache
def built_case(name: str) -> BuiltKernel:
    kernel_name = f"grouped_matmul_{name.replace('-', '_')}"
    kernel = emit_grouped_matmul(CASES[name], kernel_name)
    return build_kernels([kernel], TARGET)[kernel_name]


def test_text_is_the_checked_in_text(golden: Golden) -> None:
    plan = plan_grouped_matmul(
        pairs=128, experts=256, n=4_096, k=7_168, dtype=BF16, b_layout="nz", target=TARGET
    )
    kernel = emit_grouped_matmul(plan, "matmul_grouped")
    golden.check("ascendc/matmul_grouped.cpp", kernel.source)
    assert len(kernel.source.splitlines()) < 200  # 256 experts are a loop


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "group_sizes",
    [
        [0] * EXPERTS,
        [1] * EXPERTS,
        [0, 0, 60, 0, 0, 0, 0, 0, 0],
        [3, 0, 17, 1, 0, 16, 2, 0, 5],
    ],
    ids=["no rows", "one row each", "one expert", "ragged"],
)
def test_products_of_all_experts_are_within_the_rounding_bound(
    name: str, group_sizes: list[int]
) -> None:
    run_grouped_matmul(built_case(name), CASES[name], group_sizes)


@given(
    group_sizes=st.lists(st.integers(0, 6), min_size=EXPERTS, max_size=EXPERTS),
    seed=st.integers(0, 1_000),
    name=st.sampled_from(sorted(CASES)),
)
@settings(max_examples=20)
def test_any_group_sizes_are_right(group_sizes: list[int], seed: int, name: str) -> None:
    run_grouped_matmul(built_case(name), CASES[name], group_sizes, seed)


def test_many_experts_with_few_rows() -> None:
    plan: GroupedMatmulPlan = plan_grouped_matmul(
        pairs=32, experts=256, n=64, k=64, dtype=BF16, target=TARGET
    )
    kernel = emit_grouped_matmul(plan, "grouped_matmul_many")
    built = build_kernels([kernel], TARGET)["grouped_matmul_many"]
    run_grouped_matmul(built, plan, [i % 8 == 3 for i in range(256)])


def test_x_cannot_stay() -> None:
    with pytest.raises(GraphError, match="every expert has its rows"):
        plan_grouped_matmul(
            pairs=8, experts=1, n=16, k=16, dtype=F32, target=TARGET,
            tile=CubeTile(16, 16, 16, 16, x_stays=True),
        )  # fmt: skip
