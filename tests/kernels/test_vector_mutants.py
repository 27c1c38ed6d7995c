"""Wrong versions of vector kernels are faults or wrong values in the emulator.

A mutant must give, for every number of rows, the bytes that the right kernel gives. Survivors are
changes that are no error; they are listed with the reason.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import DeviceSize, Direction, Kernel
from ascendfx.codegen.ascendc.kernels.combine_experts import (
    emit_combine_experts,
    plan_combine_experts,
)
from ascendfx.codegen.ascendc.kernels.dispatch_experts import (
    emit_dispatch_experts,
    plan_dispatch_experts,
)
from ascendfx.codegen.ascendc.kernels.gather_rows import emit_gather_rows, plan_gather_rows
from ascendfx.codegen.ascendc.kernels.route_topk import emit_route_topk, plan_route_topk
from ascendfx.codegen.ascendc.kernels.route_topk_plan import Routing, Scoring
from ascendfx.codegen.ascendc.kernels.vector_chain import emit_vector_chain, plan_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView
from ascendfx.codegen.ascendc.kernels.write_cache import emit_write_cache, plan_write_cache
from ascendfx.ir.graph import Graph
from ascendfx.ir.tensor_type import DType
from tests.kernels.chain_graphs import latent, residual_norm, rotary, swiglu
from tests.kernels.text_mutants import Mutant, survivors, text_mutants
from tests.kernels.vector_case import (
    FEW_CORES,
    Array,
    BuiltKernel,
    build,
    random_array,
    run,
)

HARMLESS = (
    (r"^constexpr uint32_t (BLOCKS|STEP_ROWS|TILE|PIECE|KEPT) =", "another split, as right"),
    (r"^constexpr uint32_t GROUP_RANK =", "more records than are used"),
    (r"^padding\.isPad =", "with no padding to add, and otherwise still true"),
    (r"^copy\.(srcStride|dstStride) =", "of no effect on a single piece"),
    (r"^padding\.rightPadding =", "padding of results nobody reads"),
    (r"InitBuffer\(.*, 32\);$", "a buffer is rounded up to 32 bytes"),
    (r"^pipe\.InitBuffer\(\w+Buffer, \d+\);$", "sized for alignment or for longer lists"),
    (r"^every\.src1RepeatStride =", "of no effect with a built-in pattern (GatherMask page)"),
    (r"^once\.(src0|src1)RepeatStride =", "of no effect on a single repeat"),
    (r"^repeat\.\w+RepStride =", "of no effect on a single repeat"),
    (r"^repeat\.\w+BlkStride =", "of no effect on a single block"),
    (r"^merge\.ifExhaustedSuspension =", "the exhausted list ends behind the records used"),
    (r"^for \(uint32_t width = 32; width < slots;", "slots are even"),
    (r"^for \(uint32_t line = 0; line < lines; line \+= 255\)", "no tile has so many lines"),
    (r"^b\[line \* bPitch \+ column \* bBlock\], mask", "one chunk of 255 lines, or of 64 columns"),
    (r"column < columns; column \+= 64\)", "the lines are shorter"),
    (r"^Cast\(v\d+\[line", "a parameter is a single line"),
    (r"^DataCopy\(to\[", "only with a list that has no neighbour"),
    (r"^(CopyIn|CopyOut)\(.*\bcolumn\b", "column is 0 when rows are whole"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel to break, its inputs and the row counts to launch it with."""

    kernel: Kernel
    inputs: dict[str, Array]
    rows: tuple[int, ...]


def _write_cache() -> Case:
    plan = plan_write_cache(
        rows=DeviceSize(0, 60), columns=2_051, cache_rows=128, dtype=DType.BF16,
        target=FEW_CORES, view=RowView(2_060, 3),
    )  # fmt: skip
    slots = np.random.default_rng(0).permutation(128)[:60].astype(np.int32)
    slots[[2, 40]] = -1
    return _case(emit_write_cache(plan, "write_cache"), {"slots": slots}, (0, 1, 27, 60))


def _gather_rows() -> Case:
    plan = plan_gather_rows(
        rows=DeviceSize(0, 60), columns=2_051, table_rows=9, dtype=DType.BF16, target=FEW_CORES
    )
    ids = np.random.default_rng(0).integers(0, 9, 60).astype(np.int32)
    return _case(emit_gather_rows(plan, "gather_rows"), {"ids": ids}, (0, 1, 27, 60))


def _combine() -> Case:
    plan = plan_combine_experts(
        rows=DeviceSize(0, 30), columns=2_060, top_k=3, dtype=DType.BF16, target=FEW_CORES,
        shared=True, residual=True,
    )  # fmt: skip
    place = np.random.default_rng(0).permutation(90).astype(np.int32)
    return _case(emit_combine_experts(plan, "combine_experts"), {"place": place}, (0, 1, 17, 30))


def _dispatch() -> Case:
    plan = plan_dispatch_experts(rows=DeviceSize(0, 100), top_k=8, experts=33, target=FEW_CORES)
    ids = np.random.default_rng(0).integers(0, 33, 800).astype(np.int32)
    return _case(emit_dispatch_experts(plan, "dispatch"), {"ids": ids}, (0, 1, 17, 72, 100))


def _route() -> Case:
    routing = Routing(72, 6, Scoring.SIGMOID, bias=True, groups=9, topk_groups=4, normalize=True)
    plan = plan_route_topk(rows=DeviceSize(0, 40), routing=routing, target=FEW_CORES)
    return _case(emit_route_topk(plan, "route_topk"), {}, (0, 1, 17, 40))


def _chain(graph: Graph, rows: int, unified_buffer: int) -> Callable[[], Case]:
    def make() -> Case:
        target = replace(FEW_CORES, unified_buffer=unified_buffer)
        plan = plan_vector_chain(graph, rows=DeviceSize(0, rows), target=target)
        return _case(emit_vector_chain(plan, "chain"), {}, (0, 1, rows // 2 + 2, rows))

    return make


def _case(kernel: Kernel, inputs: dict[str, Array], rows: tuple[int, ...]) -> Case:
    """Fill the float inputs that are not given with random numbers."""
    given = dict(inputs)
    for seed, argument in enumerate(kernel.arguments):
        if argument.direction is not Direction.OUT and argument.name not in {*given, "sizes"}:
            given[argument.name] = random_array((argument.elements,), argument.dtype, seed)
    return Case(kernel, given, rows)


QUICK = {"write_cache": _write_cache}
CASES = {
    "gather_rows": _gather_rows,
    "combine": _combine,
    "dispatch": _dispatch,
    "route": _route,
    "norm": _chain(residual_norm(40, 200, DType.BF16), 40, 20_000),
    "latent": _chain(latent(40, 40, 12, DType.BF16), 40, 9_000),
    "rotary": _chain(rotary(40, 3, 24, DType.F32, (True, True)), 40, 9_000),
    "pieces": _chain(swiglu(5, 4_100, DType.BF16), 5, 100_000),
}


def _check_mutants(case: Case) -> None:
    """Assert that every survivor is explained."""
    right = [run(build(case.kernel), case.inputs, rows) for rows in case.rows]

    def check(built: BuiltKernel) -> None:
        for rows, expected in zip(case.rows, right, strict=True):
            for name, found in run(built, case.inputs, rows).items():
                # Not two long bytes in an assert: pytest would spend minutes on their difference.
                same = found.tobytes() == expected[name].tobytes()
                assert same, f"{name} differs"

    mutants = tuple(m for m in text_mutants(case.kernel.source) if _compiles(m))
    alive = survivors(case.kernel, mutants, check, FEW_CORES)
    strange = [m for m in alive if not any(re.search(rule, m.before) for rule, _ in HARMLESS)]
    assert not strange, "\n".join(map(str, strange))


def _compiles(mutant: Mutant) -> bool:
    return not (mutant.kind == "wrong-field" and mutant.before.startswith("source.src"))


@pytest.mark.parametrize("name", QUICK)
def test_every_mutant_is_noticed(name: str) -> None:
    _check_mutants(QUICK[name]())


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_every_mutant_of_the_other_kernels_is_noticed(name: str) -> None:
    _check_mutants(CASES[name]())
