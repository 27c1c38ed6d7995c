"""Every wrong version of a cube or mixed kernel is a fault or a wrong value in the emulator.

A survivor is either a hole of the emulator, to be fixed there, or a change that is no error; the
folder ``excused_mutants/cube`` lists the latter, each with its reason.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.cube_tile_plan import CubeTile
from ascendfx.codegen.ascendc.kernels.grouped_matmul import (
    emit_grouped_matmul,
    plan_grouped_matmul,
)
from ascendfx.codegen.ascendc.kernels.matmul import MatmulPlan, emit_matmul, plan_matmul
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.kernels.excused_mutants import excused, files_of, wrong_excuses
from tests.kernels.matmul_case import run_grouped_matmul, run_matmul
from tests.kernels.text_mutants import identities, text_mutants

TARGET = find_target("ascend910b3")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel to break and the launches that must notice.

    Attributes:
        kernel: As emitted.
        run: Launches and asserts the results.
    """

    kernel: Kernel
    run: Callable[[BuiltKernel], None]


def _matmul(plan: MatmulPlan, name: str) -> Case:
    def run(built: BuiltKernel) -> None:
        for rows in (0, 1, 2, 27, plan.product.rows) if plan.each == 1 else (0, 2, 26, 30):
            run_matmul(built, plan, rows)

    return Case(emit_matmul(plan, name), run)


def _grouped(name: str, dtype: DType, tile: CubeTile, *, each: int = 1) -> Case:
    plan = plan_grouped_matmul(
        pairs=60, experts=5, n=700, k=152, dtype=dtype, target=TARGET,
        tile=tile, each=each,
    )  # fmt: skip

    def run(built: BuiltKernel) -> None:
        for sizes in ([0, 0, 0, 0, 0], [1, 0, 17, 2, 40]):
            run_grouped_matmul(built, plan, sizes)

    return Case(emit_grouped_matmul(plan, name), run)


def _cases() -> dict[str, Case]:
    rows = DeviceSize(0, 70)
    tile = CubeTile(32, 32, 64, 32)
    plans = {
        "bf16_nk": plan_matmul(
            rows=rows, n=300, k=152, dtype=DType.BF16, target=TARGET, tile=tile
        ),
        "f32_nk": plan_matmul(
            rows=rows, n=300, k=152, batch=2, dtype=DType.F32, target=TARGET, tile=tile
        ),
        "bf16_nz": plan_matmul(
            rows=DeviceSize(0, 30), n=800, k=152, dtype=DType.BF16, out_dtype=DType.F32,
            a=MatrixView(8, 160),
            b_layout="nz", target=TARGET, tile=CubeTile(32, 32, 64, 32, x_stays=True),
        ),
        "i8_nz": plan_matmul(
            rows=DeviceSize(0, 30), n=800, k=300, dtype=DType.I8, a=MatrixView(8, 320),
            b_layout="nz", target=TARGET, tile=CubeTile(32, 32, 128, 64, x_stays=True),
        ),
        "i4_nz": plan_matmul(
            rows=DeviceSize(0, 15), n=800, k=300, dtype=DType.I4X2, a=MatrixView(8, 320),
            b_layout="nz", target=TARGET, tile=CubeTile(32, 32, 128, 64, x_stays=True), each=2,
        ),
    }  # fmt: skip
    cases = {name: _matmul(plan, f"matmul_{name}") for name, plan in plans.items()}
    tile = CubeTile(32, 32, 128, 64)
    return cases | {
        "grouped": _grouped("grouped_matmul_nk", DType.F32, CubeTile(32, 32, 64, 32)),
        "grouped_i4": _grouped("grouped_matmul_i4", DType.I4X2, tile, each=2),
    }


CASES = _cases()


def _wrong_excuses(name: str) -> str:
    case = CASES[name]
    case.run(build_kernels([case.kernel], TARGET)[case.kernel.name])  # the kernel itself is right
    return "\n".join(wrong_excuses(f"cube/{name}", case.kernel, case.run, TARGET))


@pytest.mark.parametrize("name", CASES)
def test_every_excuse_is_of_a_mutant_of_the_kernel(name: str) -> None:
    assert set(excused(f"cube/{name}")) <= set(identities(text_mutants(CASES[name].kernel.source)))
    assert files_of("cube") == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_mutants_change_one_line_each(name: str) -> None:
    source = CASES[name].kernel.source
    mutants = text_mutants(source)
    for mutant in mutants:
        changed = [
            (a, b)
            for a, b in zip(source.splitlines(), mutant.source.splitlines(), strict=True)
            if a != b
        ]
        assert len(changed) == 1, str(mutant)
    kinds = Counter(mutant.kind for mutant in mutants)
    assert len(mutants) >= 50, kinds


@pytest.mark.parametrize("name", ["bf16_nk"])
def test_every_mutant_is_noticed_or_excused(name: str) -> None:
    assert not _wrong_excuses(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(CASES) - {"bf16_nk"}))
def test_every_mutant_of_the_other_kernels_is_noticed_or_excused(name: str) -> None:
    assert not _wrong_excuses(name)
