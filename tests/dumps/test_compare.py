"""Tensor dumps of two runs: equal runs agree, a mistake shows where it begins."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import random_weights
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.dumps.compare_tensors import (
    compare_dumps,
    compare_modules,
    first_divergence,
)
from ascendfx.runtime.dumps.tensor_dump import (
    TensorDump,
    TensorEntry,
    dump_tensors,
    read_tensors_file,
    write_tensors_file,
)
from ascendfx.runtime.presets import TO_SERVING
from tests.passes.captured_models import captured

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
    assert {each.max for each in compared.values} == {0.0}
    assert {each.sqnr for each in compared.values} == {np.inf}
    assert first_divergence(compared.values) is None
    assert compared.verdict == "rounding explains every difference"


def test_the_first_different_value_is_named() -> None:
    run = run_of(serving=True)
    key = next(entry.key for entry in run.entries if entry.op == "swiglu")
    wrong = {**run.arrays, key: run.arrays[key] + 1e-6}
    first = first_divergence(
        compare_dumps(run, TensorDump("wrong", run.entries, wrong, run.tokens)).values
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


def _serving_beside_eager() -> tuple[TensorDump, dict[str, NDArray[np.float64]]]:
    """Return a run on 4 tokens with one row behind its only layer, and all rows of eager."""
    shapes = {
        "model.layers.0.mlp.gate": (4, 2),
        "model.layers.0": (4, 3),
        "model.norm": (1, 3),
        "lm_head": (1, 5),
    }
    theirs = {**shapes, "model.layers.0.mlp.gate": (4, 8), "model.layers.0.kv": (1, 4, 3)}
    random = np.random.default_rng(0)
    eager = {path: random.standard_normal((1, 4, shape[-1])) for path, shape in theirs.items()}
    ours = {
        path: eager[path].reshape(4, -1)[-shape[0] :, : shape[1]] for path, shape in shapes.items()
    }
    entries = tuple(TensorEntry(path, "linear", path, "", 1e-9) for path in shapes)
    return TensorDump("serving", entries, ours, (3, 1, 4, 1)), eager


def test_the_rows_that_a_serving_form_keeps_are_compared() -> None:
    run, eager = _serving_beside_eager()
    found = compare_modules(run, eager)
    assert {each.name: each.rows for each in found.values} == {
        "model.layers.0": "",
        "model.norm": "last 1 of 4 rows",
        "lm_head": "last 1 of 4 rows",
    }
    assert first_divergence(found.values) is None


@pytest.mark.parametrize("path", ["model.norm", "lm_head"])
def test_a_mistake_behind_the_last_layer_is_found(path: str) -> None:
    run, eager = _serving_beside_eager()
    eager[path] = eager[path] + 100
    first = first_divergence(compare_modules(run, eager).values)
    assert first is not None
    assert (first.name, first.max) == (path, pytest.approx(100))


def test_a_shorter_second_run_is_compared_in_its_rows() -> None:
    run, eager = _serving_beside_eager()
    entries = tuple(TensorEntry(path, "linear", path, "", 1e-9) for path in eager)
    whole = TensorDump("captured", entries, eager, run.tokens)
    first, second = compare_dumps(whole, run), compare_dumps(run, whole)
    assert {each.name for each in first.values} == {each.name for each in second.values}
    wrong = {**run.arrays, "lm_head": run.arrays["lm_head"] + 1}
    parted = compare_dumps(whole, TensorDump("wrong", run.entries, wrong, run.tokens))
    found = first_divergence(parted.values)
    assert found is not None
    assert found.name == "lm_head"


def test_what_cannot_be_compared_is_said_and_the_verdict_is_of_the_rest() -> None:
    run, eager = _serving_beside_eager()
    found = compare_modules(run, eager)
    assert found.not_compared == (
        "model.layers.*.mlp.gate ([4, 2] beside [1, 4, 8])",
        "model.layers.*.kv (only in the second run)",
    )
    assert found.verdict.endswith(f" of the {len(found.values)} modules that were compared")


def test_rows_that_are_no_tokens_are_not_taken_for_them() -> None:
    run, eager = _serving_beside_eager()
    eager["lm_head"] = np.zeros((1, 3, 5))
    found = compare_modules(run, eager)
    assert "lm_head" not in {each.name for each in found.values}
    assert "lm_head ([1, 5] beside [1, 3, 5])" in found.not_compared


@pytest.mark.nightly
def test_the_bundled_model_agrees_with_eager_pytorch_module_by_module() -> None:
    words = ["compare", str(ascendfx.bundled_model()), "--eager", "-p", "Once upon a time"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [f"model.layers.{i}" for i in range(5)]
    assert any(line.startswith("lm_head ") and line.endswith(" rows)") for line in lines)
    assert lines[-2].startswith("not compared: model.rotary_emb (")
    assert lines[-1].startswith("rounding explains every difference of the ")
