"""Every wrong version of a mixed attention kernel is a fault or a wrong value in the emulator.

The folder ``excused_mutants/attention`` lists changes that are no errors, each with its reason.
The complete list of mutants runs nightly; a sample over the whole text runs always.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.kernels.chunked_prefill_attention import (
    emit_chunked_prefill_attention,
    plan_chunked_prefill_attention,
)
from ascendfx.codegen.ascendc.kernels.combine_attention_splits import (
    emit_combine_attention_splits,
    plan_combine_attention_splits,
)
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import (
    LatentDecodeShape,
    emit_latent_decode_attention,
    plan_latent_decode_attention,
)
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.kernels.attention_case import run_decode, run_prefill
from tests.kernels.attention_shapes import decode_shape, prefill_shape
from tests.kernels.excused_mutants import excused, files_of, wrong_excuses
from tests.kernels.text_mutants import Mutant, identities, text_mutants

TARGET = find_target("ascend910b3")
SAMPLE = 16


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel to break and the launches that must notice."""

    kernel: Kernel
    run: Callable[[BuiltKernel], None]
    known: str = ""
    """Text of another case: it has the mutants of lines that both have."""


def _decode(dtype: DType, spread: float) -> Case:
    shape = decode_shape(dtype, 36, 144, 16, rows=30, spread=spread)
    return _decode_case(shape, 2, [126, 128, 509, 300])


def _codes() -> Case:
    """Steps that are decoded behind weights, into their memory: few heads, and many keys."""
    shape = decode_shape(DType.BF16, 20, 160, 16, rows=30, max_blocks=8, codes=True)
    return _decode_case(shape, 1, [126, 128, 950, 300])


def _decode_case(shape: LatentDecodeShape, splits: int, positions: list[int]) -> Case:
    plan = plan_latent_decode_attention(shape, TARGET, splits=splits)
    combine = emit_combine_attention_splits(plan_combine_attention_splits(plan, TARGET), "merge")

    def run(built: BuiltKernel) -> None:
        merge = build_kernels([combine], TARGET)["merge"]
        run_decode(plan, built, merge, positions, [0, 1, 3, 3])
        run_decode(plan, built, merge, [*range(100, 400, 10)], [*range(30)])

    return Case(emit_latent_decode_attention(plan, "decode"), run)


def _tree(dtype: DType, latent: int, spread: float, *, codes: bool = False) -> Case:
    """With codes, rows have more steps than key slots, so that some are decoded behind weights."""
    shape = decode_shape(
        dtype, 36, latent, 16, rows=30, max_blocks=8 if codes else 4, spread=spread, tree=True,
        codes=codes,
    )  # fmt: skip
    plan = plan_latent_decode_attention(shape, TARGET, splits=1 if codes else 2)
    combine = emit_combine_attention_splits(plan_combine_attention_splits(plan, TARGET), "merge")

    def run(built: BuiltKernel) -> None:
        merge = build_kernels([combine], TARGET)["merge"]
        positions, requests = [126, 128, 940 if codes else 496, 300, 7], [0, 1, 3, 4, 5]
        nodes = [0b1001, 0b1000_0000_0000_0101, 0b1111, 0, 0b1_0001_0101]
        run_decode(plan, built, merge, positions, requests, ancestors=nodes)
        many = [0b11, 0b101, 0b1001_0011, 0b1000_0000_0001] * 8
        rows = [*range(100, 400, 10)], [*range(30)]
        run_decode(plan, built, merge, *rows, ancestors=many[:30])

    return Case(emit_latent_decode_attention(plan, "tree"), run)


def _prefill(dtype: DType, spread: float) -> Case:
    shape = prefill_shape(dtype, 8, (144, 16, 144), rows=300, context=420, spread=spread)
    plan = plan_chunked_prefill_attention(shape, TARGET)

    def run(built: BuiltKernel) -> None:
        run_prefill(plan, built, 127, 20)
        run_prefill(plan, built, 100, 300)

    return Case(emit_chunked_prefill_attention(plan, "prefill"), run)


CASES = {
    "decode-bf16": _decode(DType.BF16, 1.0),
    "decode-f32": _decode(DType.F32, 100.0),
    "tree-bf16": _tree(DType.BF16, 144, 1.0),
    "tree-f32": _tree(DType.F32, 152, 100.0),
    "codes-bf16": _codes(),
    "codes-tree-f32": _tree(DType.F32, 160, 100.0, codes=True),
    "prefill-bf16": _prefill(DType.BF16, 100.0),
    "prefill-f32": _prefill(DType.F32, 1.0),
}


CASES["codes-bf16"] = replace(CASES["codes-bf16"], known=CASES["decode-bf16"].kernel.source)
CASES["codes-tree-f32"] = replace(
    CASES["codes-tree-f32"],
    known=CASES["tree-f32"].kernel.source + CASES["codes-bf16"].kernel.source,
)


def _mutants(case: Case) -> tuple[Mutant, ...]:
    known = {line.strip() for line in case.known.splitlines()}
    return tuple(each for each in text_mutants(case.kernel.source) if each.before not in known)


def _wrong_excuses(name: str, mutants: tuple[Mutant, ...]) -> str:
    case = CASES[name]
    wrong = wrong_excuses(f"attention/{name}", case.kernel, case.run, TARGET, mutants=mutants)
    return "\n".join(wrong)


@pytest.mark.parametrize("name", CASES)
def test_every_excuse_is_of_a_mutant_of_the_kernel(name: str) -> None:
    known = set(identities(text_mutants(CASES[name].kernel.source)))
    assert set(excused(f"attention/{name}")) <= known
    assert files_of("attention") == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_there_are_mutants_of_every_kind(name: str) -> None:
    kinds = Counter(mutant.kind for mutant in text_mutants(CASES[name].kernel.source))
    assert kinds.total() >= 200, kinds
    assert {"dropped-sync", "turned-event", "wrong-field", "wrong-loop"} <= set(kinds)


@pytest.mark.parametrize("name", ["decode-bf16", "tree-f32", "prefill-f32"])
def test_a_sample_of_the_mutants_is_noticed(name: str) -> None:
    mutants = _mutants(CASES[name])
    assert not _wrong_excuses(name, mutants[:: len(mutants) // SAMPLE])


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_every_mutant_is_noticed(name: str) -> None:
    assert not _wrong_excuses(name, _mutants(CASES[name]))
