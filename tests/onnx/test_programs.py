"""Captured, raised and serving programs as ONNX compute what they compute here."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.absorb_projections import AbsorbProjections
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.random_weights import checkpoint_types, random_weights
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING
from tests.onnx.assert_agrees import assert_program_agrees

PROGRAMS = Path(__file__).parents[1] / "passes" / "programs"
CAPTURED = sorted(path.stem for path in (PROGRAMS / "captured").glob("*.ir"))
RAISED = ("latent_attention", "grouped_query_attention")
BLOCK = 4


@cache
def load(name: str) -> Program:
    path = PROGRAMS / f"{name}.ir"
    return parse_program(path.read_text(encoding="utf-8"), file=path.name)


@cache
def prefill(name: str) -> Program:
    derived = DeriveIncrementalForm(block_tokens=BLOCK).run(load(name)).program
    return ShareCommon().run(FoldWeights().run(derived).program).program


@cache
def decode(name: str) -> Program:
    derived = DeriveIncrementalForm(block_tokens=BLOCK).run(load(name)).program
    absorbed = AbsorbProjections().run(derived).program
    return ShareCommon().run(FoldWeights().run(absorbed).program).program


def step_tensors(
    name: str, program: Program, seed: int, *, block: int = BLOCK
) -> tuple[dict[str, Array], dict[str, int]]:
    """Return a step of two requests with 5 and 2 cached tokens: three rows, one row, one padding.

    What no row may look at is not a number.
    """
    random = np.random.default_rng(seed)
    table = np.array([[3, 0, 1], [2, 5, 4]])
    requests, positions = np.array([0, 0, 0, 1, 0]), np.array([5, 6, 7, 2, 0])
    slots = table[requests, positions // block] * block + positions % block
    slots[-1] = -1
    tensors = {
        **random_weights(load(name), seed),
        "token_ids": random.integers(0, 11, 5),
        "positions": positions,
        "slots": slots,
        "row_request": requests,
        "block_table": table,
        "logit_rows": np.array([2, 3]),
    }
    known = [
        table[r, t // block] * block + t % block for r, n in ((0, 5), (1, 2)) for t in range(n)
    ]
    for cache_name, kind in program.main.input_types.items():
        if cache_name.startswith("cache."):
            shape = [bind_size(d, {"blocks": 6}) for d in kind.shape]
            flat = np.full((shape[0] * shape[1], *shape[2:]), np.nan)
            flat[known] = random.standard_normal((len(known), *shape[2:]))
            tensors[cache_name] = flat.reshape(shape)
    return tensors, {"context": 8}


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
