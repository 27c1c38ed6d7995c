"""Every wrong version of a mixed attention kernel is a fault or a wrong value in the emulator.

`HARMLESS` lists changed lines that are no errors, with the reason. The complete list of mutants
runs nightly; a sample over the whole text runs always.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

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
    emit_latent_decode_attention,
    plan_latent_decode_attention,
)
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from tests.kernels.attention_case import run_decode, run_prefill
from tests.kernels.attention_shapes import decode_shape, prefill_shape
from tests.kernels.text_mutants import Mutant, survivors, text_mutants

TARGET = find_target("ascend910b3")
SAMPLE = 16

_SMALLER = "a smaller tile is as right, only slower"
_DIRECTION = "flags in opposite directions count separately, and any free id will do"
_PERMUTED = "both flags are raised, or taken back, in any order"

HARMLESS = {
    "KEY_TILE = 128; -> constexpr uint32_t KEY_TILE = 64;": _SMALLER,
    "KEY_TILE = 64; -> constexpr uint32_t KEY_TILE = 32;": _SMALLER,
    "K_STEP = 128; -> constexpr uint32_t K_STEP = 64;": _SMALLER,
    "N_STEP = 128; -> constexpr uint32_t N_STEP = 64;": _SMALLER,
    "K_STEP = 64; -> constexpr uint32_t K_STEP = 32;": _SMALLER,
    "N_STEP = 64; -> constexpr uint32_t N_STEP = 32;": _SMALLER,
    "L0C_HALF = 65536; -> constexpr uint32_t L0C_HALF = 32768;": "half of L0C is enough here",
    "SCORES_READY = 0; -> constexpr uint16_t SCORES_READY = 1;": _DIRECTION,
    "WEIGHTS_READY = 1; -> constexpr uint16_t WEIGHTS_READY = 2;": _DIRECTION,
    "PRODUCTS_READY = 2; -> constexpr uint16_t PRODUCTS_READY = 3;": _DIRECTION,
    "PRODUCTS_READY = 2; -> constexpr uint16_t PRODUCTS_READY = 1;": _DIRECTION,
    "real * K0], gm[0], copy);": "the rows that fill up a slab may hold any numbers",
    "store.deqScalar = (0) + 1;": "there is no quantization",
    "-> SetFlag<HardEvent::M_MTE1>((half) ^ 1);": _PERMUTED,
    "-> SetFlag<HardEvent::FIX_M>((half) ^ 1);": _PERMUTED,
    "-> SetFlag<HardEvent::MTE1_MTE2>((slot) ^ 1);": _PERMUTED,
    "-> WaitFlag<HardEvent::M_MTE1>((half) ^ 1);": _PERMUTED,
    "-> WaitFlag<HardEvent::FIX_M>((half) ^ 1);": _PERMUTED,
    "-> WaitFlag<HardEvent::MTE1_MTE2>((slot) ^ 1);": _PERMUTED,
    "-> for (uint32_t rows = 1; rows + 1 < KEY_TILE; rows *= 2) {": "the same powers of two",
    "-> Max(fold, ": "softmax may subtract any number near the maximum; peaked scores do notice",
}
"""Reason why a mutant whose description contains the key does not matter."""


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel to break and the launches that must notice."""

    kernel: Kernel
    run: Callable[[BuiltKernel], None]


def _decode(dtype: DType, spread: float) -> Case:
    shape = decode_shape(dtype, 36, 144, 16, rows=30, spread=spread)
    plan = plan_latent_decode_attention(shape, TARGET, splits=2)
    combine = emit_combine_attention_splits(plan_combine_attention_splits(plan, TARGET), "merge")

    def run(built: BuiltKernel) -> None:
        merge = build_kernels([combine], TARGET)["merge"]
        run_decode(plan, built, merge, [126, 128, 509, 300], [0, 1, 3, 3])
        run_decode(plan, built, merge, [*range(100, 400, 10)], [*range(30)])

    return Case(emit_latent_decode_attention(plan, "decode"), run)


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
    "prefill-bf16": _prefill(DType.BF16, 100.0),
    "prefill-f32": _prefill(DType.F32, 1.0),
}


def unexplained(case: Case, mutants: tuple[Mutant, ...]) -> list[str]:
    alive = survivors(case.kernel, mutants, case.run, TARGET)
    return [str(mutant) for mutant in alive if not any(key in str(mutant) for key in HARMLESS)]


@pytest.mark.parametrize("name", CASES)
def test_there_are_mutants_of_every_kind(name: str) -> None:
    kinds = Counter(mutant.kind for mutant in text_mutants(CASES[name].kernel.source))
    assert kinds.total() >= 200, kinds
    assert {"dropped-sync", "turned-event", "wrong-field", "wrong-loop"} <= set(kinds)


@pytest.mark.parametrize("name", ["decode-bf16", "prefill-f32"])
def test_a_sample_of_the_mutants_is_noticed(name: str) -> None:
    mutants = text_mutants(CASES[name].kernel.source)
    assert not unexplained(CASES[name], mutants[:: len(mutants) // SAMPLE])


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_every_mutant_is_noticed(name: str) -> None:
    assert not unexplained(CASES[name], text_mutants(CASES[name].kernel.source))
