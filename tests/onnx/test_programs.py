"""Captured, raised and serving programs as ONNX compute what they compute here."""

from functools import cache

import numpy as np
import pytest

from ascendfx.ir.program import Program
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING
from tests.onnx.assert_agrees import assert_program_agrees
from tests.onnx.decode_programs import BLOCK, decode, step_tensors
from tests.passes.load_program import PROGRAMS, load

CAPTURED = sorted(path.stem for path in (PROGRAMS / "captured").glob("*.ir"))
RAISED = ("latent_attention", "grouped_query_attention")


@cache
def prefill(name: str) -> Program:
    derived = DeriveIncrementalForm(block_tokens=BLOCK).run(load(name)).program
    return ShareCommon().run(FoldWeights().run(derived).program).program


@pytest.mark.parametrize("name", CAPTURED)
def test_a_captured_program_agrees(name: str) -> None:
    program = load(f"captured/{name}")
    assert_program_agrees(program, random_tensors(program, seed=0, ids=96))


@pytest.mark.parametrize("name", CAPTURED)
def test_a_raised_program_agrees(name: str) -> None:
    program = load(f"captured/{name}")
    raised, _ = run_pipeline(program, RAISE)
    assert_program_agrees(raised, random_tensors(program, seed=1, ids=96))


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("tokens", [1, 6])
def test_a_program_of_raised_operations_agrees(name: str, tokens: int) -> None:
    program = load(name)
    assert_program_agrees(
        program, random_tensors(program, seed=2, ids=11, sizes={"tokens": tokens})
    )


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("form", [prefill, decode], ids=lambda form: form.__name__)
def test_a_serving_step_agrees(name: str, form: object) -> None:
    program = form(name)  # pyright: ignore[reportOperatorIssue]
    tensors, sizes = step_tensors(name, program, seed=3)
    assert_program_agrees(program, tensors, sizes)


@pytest.mark.parametrize("name", CAPTURED)
def test_a_raised_program_agrees_in_its_own_formats(name: str) -> None:
    program = load(f"captured/{name}")
    raised, _ = run_pipeline(program, RAISE)
    tensors = {
        key: array.astype(checkpoint_types(program)[key].dtype.numpy).astype(np.float64)
        if key in checkpoint_types(program)
        else array
        for key, array in random_tensors(program, seed=1, ids=96).items()
    }
    assert_program_agrees(raised, tensors, float_dtype=None)


@pytest.mark.parametrize("steps", [PREFILL, DECODE], ids=["prefill", "decode"])
def test_a_serving_step_of_a_captured_model_agrees(steps: tuple[ProgramPass, ...]) -> None:
    name = "captured/v3yarn_f32"
    program, _ = run_pipeline(load(name), (*TO_SERVING, *steps))
    tensors, sizes = step_tensors(name, program, seed=5, block=128)
    assert_program_agrees(program, tensors, sizes)
