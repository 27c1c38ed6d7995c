"""``ascendfx quantize`` on the bundled model: written, read, and calibrated without torch."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ascendfx import bundled_model
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.shipped import recipe_named
from ascendfx.quant_passes.scaling.granularity import PerChannel
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule
from ascendfx.runtime.checkpoint.open_checkpoint import Checkpoint, open_checkpoint
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.quantize import quantize_directory as module
from ascendfx.runtime.quantize.calibrated_model import CalibratedModel
from ascendfx.runtime.quantize.quantize_directory import (
    estimate_quantization,
    quantize_directory,
)
from tests.quant.insertion.bundled_program import raised_program, weights

PROJECTION = "model.layers.0.self_attn.o_proj.weight"
EXPERT = "model.layers.3.mlp.experts.5.down_proj.weight"
DRAFTED = "model.layers.5.mlp.experts.5.down_proj.weight"
CALIBRATION = bundled_model() / "texts" / "calibration.jsonl"


@cache
def model() -> Checkpoint:
    return open_checkpoint(bundled_model())


def written(place: Path) -> Checkpoint:
    return open_checkpoint(place, delivered=DType.BF16)


def codes(saved: SavedWeight) -> QuantizedTensor:
    assert isinstance(saved.weight, QuantizedTensor)
    return saved.weight


def test_w8a8_is_what_compilations_round_to(tmp_path: Path) -> None:
    place = tmp_path / "out"
    made = quantize_directory(bundled_model(), recipe_named("w8a8"), place)
    found = written(place)
    assert made.written.directory == place
    assert made.mixture is None
    assert set(found.keys()) == set(model().keys())
    for key in (PROJECTION, EXPERT, DRAFTED):
        true = round_to_nearest(model().load(key), Integer(8), PerChannel(), ScaleRule())
        assert found.weight(key).activation == "dynamic"
        np.testing.assert_array_equal(codes(found.weight(key)).codes, true.codes)
        np.testing.assert_array_equal(codes(found.weight(key)).affine.scale, true.affine.scale)
    kept = [key for key in found.keys() if not found.is_quantized(key)]  # noqa: SIM118
    assert "model.layers.0.self_attn.kv_b_proj.weight" in kept
    assert (place / "tokenizer.json").is_file()


@pytest.mark.parametrize("form", ["ascend", "compressed-tensors", "hf"])
def test_a_dry_run_says_what_would_be_written(form: str, tmp_path: Path) -> None:
    words = ["quantize", str(bundled_model()), "-r", "w4a8", "-f", form, "--dry-run"]
    ended = CliRunner().invoke(cli, words)
    assert ended.exit_code == 0, ended.output
    kinds = {line.split("  ")[0] for line in ended.stdout.splitlines()[1:-1]}
    assert {
        "int4 per channel, inputs int8 dynamic",
        "int8 per channel, inputs int8 dynamic",
    } <= kinds
    assert "about" in ended.stdout.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_lines_that_decide_about_nothing_are_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        'sites:\n  - {match: "*_proj.weight", weight: int8}\n  - {match: x, keep: true}'
    )
    ended = CliRunner().invoke(
        cli, ["quantize", str(bundled_model()), "-r", str(file), "-f", "hf", "--dry-run"]
    )
    assert f"no weight is left for x at {file}:3" in ended.stderr


def test_the_recipe_of_the_readme_can_be_written(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "quant_passes" / "README.md").read_text(encoding="utf-8")
    recipe = next(each for each in text.split("```") if each.startswith("yaml\nsites:"))
    file = tmp_path / "mine.yaml"
    file.write_text(recipe.removeprefix("yaml").replace("32768", "128").replace("256", "32"))
    rows = CALIBRATION.read_text(encoding="utf-8").splitlines()[:4]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    (tmp_path / "more.txt").write_text(text[:4000])
    found = estimate_quantization(bundled_model(), recipe_named(str(file)))
    assert "int4 per channel, inputs int8 dynamic" in {each.kind for each in found.run.kinds}
    assert found.mixture is not None
    assert not found.idle


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["-r", "w8a8"], 2, "Missing option '-o'"),
        (["-r", "w8a8", "--texts", "a.txt", "--dry-run"], 2, "needs no data"),
        (["--dry-run"], 2, "--recipe"),
    ],
)
def test_wrong_options_are_wrong_use(words: list[str], code: int, told: str) -> None:
    ended = CliRunner().invoke(cli, ["quantize", str(bundled_model()), *words])
    assert ended.exit_code == code
    assert told in ended.stderr


@pytest.mark.parametrize(
    ("text", "form", "code"),
    [
        ("weight: int4", "ascend", "not-storable"),
        ("weight: int8\n    granularity: block 32x32", "compressed-tensors", "not-storable"),
        ("weight: int8\n    activation: static", "ascend", "texts-missing"),
        ("weight: int8\nkv_cache: int8", "hf", "cache-not-storable"),
        ("weight: int8", "onnx", "form-not-known"),
    ],
)
def test_what_cannot_be_written_is_told_before(text: str, form: str, code: str) -> None:
    recipe = recipe_of(f'sites:\n  - match: "*.o_proj.weight"\n    {text}')
    with pytest.raises(GraphError, match=code) as caught:
        estimate_quantization(bundled_model(), recipe, form=form)
    assert "PerChannel()" not in str(caught.value)  # recipes have other words


CALIBRATED = f"""
sites:
  - match: ["*.layers.3.mlp.experts.5.*", "*.layers.5.mlp.experts.5.*"]
    weight: int4
    algorithm: gptq
    options: {{tokens_per_input: 0.25, scales: {{algorithm: ssz, weighted: true}}, fallback: ssz}}
    activation: dynamic
  - match: ["*.layers.3.mlp.experts.*", "*.layers.5.mlp.experts.*"]
    weight: int4
    activation: dynamic
  - match: "*.o_proj.weight"
    weight: int8
    activation: dynamic
calibration:
  texts: [{CALIBRATION}]
  tokens: 128
  length: 64
kv_cache: int8
"""


def test_calibrated_weights_are_those_of_their_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calibrated(directory: Path, windows: np.ndarray, recipe: object, **_: object) -> object:
        assert directory == bundled_model()
        return CalibratedModel(raised_program(), weights(), windows, recipe)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(module, "calibrated_model", calibrated)
    recipe = recipe_of(CALIBRATED)
    made = quantize_directory(bundled_model(), recipe, tmp_path / "out")
    found = written(tmp_path / "out")
    assert made.mixture is not None
    assert made.mixture.tokens == 128
    counts = {each.key: each.counts for each in made.experts}
    assert len(counts) == 8
    assert all(sum(each) == 128 * 4 for each in counts.values())

    run = CalibratedModel(raised_program(), weights(), made.mixture.windows, recipe)
    inputs = run.statistics(EXPERT)
    assert inputs is not None
    assert inputs.tokens == counts["model.layers.3.mlp.experts.down_proj"][5]
    policy = recipe.policy_of(EXPERT)
    assert policy is not None
    true = policy.algorithm.quantize(model().load(EXPERT), policy.spec, inputs).tensor
    assert isinstance(true, QuantizedTensor)
    np.testing.assert_array_equal(codes(found.weight(EXPERT)).codes, true.codes)
    assert DRAFTED in made.remarks
    scale = found.load("model.layers.3.self_attn.fa_k.scale")
    assert 0 < scale[0, 0] < 1
