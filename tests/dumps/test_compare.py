"""Tensor dumps of two runs: equal runs agree, a mistake shows where it begins."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import random_weights
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.dumps.compare_tensors import compare_dumps, first_divergence
from ascendfx.runtime.dumps.tensor_dump import (
    TensorDump,
    dump_tensors,
    read_tensors_file,
    write_tensors_file,
)
from ascendfx.runtime.presets import TO_SERVING
from tests.passes.test_raising_models import captured

_NAME = "v3_halfrope"
_TOKENS = np.array([[3, 1, 4, 1, 5, 9, 2, 6]])


def run_of(serving: bool) -> TensorDump:  # noqa: FBT001  # two cases of one parameter
    program = captured(_NAME)
    weights = random_weights(program, 0)
    if serving:
        program, _ = run_pipeline(program, TO_SERVING)
    return dump_tensors(program, weights, _TOKENS, "run")


def test_every_value_has_its_place_and_survives_the_file(tmp_path: Path) -> None:
    run = run_of(serving=True)
    write_tensors_file(tmp_path / "a.safetensors", run)
    again = read_tensors_file(tmp_path / "a.safetensors")
    assert again.entries == run.entries
    assert again.tokens == run.tokens == (3, 1, 4, 1, 5, 9, 2, 6)
    assert again.arrays.keys() == run.arrays.keys()
    assert all(np.array_equal(again.arrays[k], run.arrays[k], equal_nan=True) for k in run.arrays)
    assert {"linear", "rms_norm", "ragged_attention"} <= {entry.op for entry in run.entries}
    assert all(entry.location.startswith("v3_halfrope.ir:") for entry in run.entries)


def test_equal_runs_agree_value_by_value() -> None:
    compared = compare_dumps(run_of(serving=True), run_of(serving=True))
    assert {each.max for each in compared} == {0.0}
    assert {each.sqnr for each in compared} == {np.inf}
    assert first_divergence(compared) is None


def test_the_first_different_value_is_named() -> None:
    run = run_of(serving=True)
    key = next(entry.key for entry in run.entries if entry.op == "swiglu")
    wrong = {**run.arrays, key: run.arrays[key] + 1e-6}
    first = first_divergence(
        compare_dumps(run, TensorDump("wrong", run.entries, wrong, run.tokens))
    )
    assert first is not None
    assert first.name.startswith(f"{key} swiglu")
    assert first.max == pytest.approx(1e-6)


def test_runs_on_different_texts_are_not_compared() -> None:
    run = run_of(serving=True)
    other = TensorDump("other", run.entries, run.arrays, (3, 1, 4))
    with pytest.raises(
        GraphError, match=r"the runs have different inputs: 8 tokens 3 1 4 .* and 3"
    ):
        compare_dumps(run, other)


@pytest.mark.nightly
def test_the_bundled_model_agrees_with_eager_pytorch_module_by_module() -> None:
    words = ["compare", str(ascendfx.bundled_model()), "--eager", "-p", "Once upon a time"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [f"model.layers.{i}" for i in range(5)]
    assert lines[-1] == "rounding explains every difference"
