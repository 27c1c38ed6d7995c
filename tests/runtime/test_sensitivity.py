"""``ascendfx sensitivity`` on the bundled model, from its scores to a recipe that is followed."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ascendfx import bundled_model
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.mixed_precision.best_choices import best_choices, total
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Recipe, RecipeLine
from ascendfx.quant_passes.policy.shipped import recipe_named
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.quantize import measure_sensitivity as module
from ascendfx.runtime.quantize.measure_sensitivity import (
    BYTES,
    SECONDS,
    TOKEN_BYTES,
    Sensitivity,
    SensitivityOptions,
    measure_sensitivity,
)
from ascendfx.runtime.quantize.quantize_directory import estimate_quantization
from tests.quant.insertion.bundled_program import raised_program, weights

TEXTS = bundled_model() / "texts" / "calibration.jsonl"
RECIPES = tuple(map(recipe_named, ("w8a8", "w4a8")))
KEEP = Recipe("keep", ())
W4E = f"""
sites:
  - {{match: ["*.kv_b_proj.weight", "*.mlp.gate.weight", "*lm_head.weight"], keep: true}}
  - {{match: "*.layers.[12].mlp.experts.*", weight: int4, activation: dynamic}}
  - {{match: "*_proj.weight", weight: int8, activation: dynamic}}
  - {{match: "*.kv_a_proj_with_mqa.weight", weight: int8, activation: dynamic}}
calibration: {{texts: [{TEXTS}], tokens: 256, length: 64}}
"""
"""Two layers about which there is something to choose."""
IDLE = ("-r", "w8a8", "-r", "w4a8", "--by", "iqr-weights")
"""Nothing of it reads texts."""


def bundled(*_: object) -> object:
    return raised_program(), weights()


@pytest.fixture(autouse=True)
def _without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "program_over_texts", bundled)


@pytest.fixture(scope="module")
def found() -> Sensitivity:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "program_over_texts", bundled)
        options = SensitivityOptions("iqr-weights", target=find_target("ascend910b2"))
        return measure_sensitivity(bundled_model(), (KEEP, *RECIPES), options)


def command(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sensitivity", str(bundled_model()), *words])


def test_sizes_are_those_of_the_written_checkpoint(found: Sensitivity) -> None:
    kept = RecipeLine(("*.layers.5.*",), None)  # the draft layer is the first recipe's
    for recipe in RECIPES:
        cost, score = found.uniform(BYTES)[recipe.name]
        same = Recipe("same", (kept, *recipe.lines))
        kinds = estimate_quantization(bundled_model(), same).run.kinds
        assert cost == sum(each.bytes for each in kinds)  # files have headers, too
        assert score > 0
    assert found.uniform(BYTES)["keep"][1] == 0


def test_fewer_bits_cost_less(found: Sensitivity) -> None:
    for name in (BYTES, TOKEN_BYTES, SECONDS):
        kept, eight, four = (found.uniform(name)[each][0] for each in ("keep", "w8a8", "w4a8"))
        assert kept > eight > four
    assert found.uniform(TOKEN_BYTES)["keep"][0] * 32 < found.uniform(BYTES)["keep"][0]


def test_the_recipe_of_a_budget_is_what_is_written(tmp_path: Path) -> None:
    given, file, picture = (tmp_path / name for name in ("w4e.yaml", "mixed.yaml", "front.svg"))
    given.write_text(W4E, encoding="utf-8")
    most = 11_200_000
    words = ["-r", "w8a8", "-r", str(given), "--by", "iqr-weights", "--max-bytes", str(most)]
    ended = command(*words, "-o", str(file), "--front", str(picture))
    assert ended.exit_code == 0, ended.output
    recipe = recipe_named(str(file))
    layers = [f"model.layers.{n}.mlp.experts.3.up_proj.weight" for n in range(1, 5)]
    bits = [policy.spec.format.bits for policy in map(recipe.policy_of, layers) if policy]
    assert sorted(bits) == [4, 8, 8, 8]
    kinds = estimate_quantization(bundled_model(), recipe).run.kinds
    size = sum(each.bytes for each in kinds)
    assert size <= most
    assert f"{BYTES} {size:,}" in ended.stderr
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert "w4e everywhere" in ended.stdout
    assert "layers.1.mlp.experts.0.gate_proj.weight and 47 more: w8a8 " in ended.stderr


def test_predictions_decide_with_kl() -> None:
    options = SensitivityOptions("kl", places=64)
    recipes = (recipe_named("w8a8"), recipe_of(W4E, file="w4e"))
    made = measure_sensitivity(bundled_model(), recipes, options)
    experts = [each for each in made.judged if len(each.unit.choices) == 2]
    assert len(experts) == 2
    assert all(0 < each.scores[0] < each.scores[1] for each in experts)
    cost, score = made.uniform(BYTES)["w4e"]
    choices = best_choices(made.scores, [made.limit(BYTES, cost)])
    assert total(made.scores, choices) == pytest.approx(score)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["-r", "w8a8", "-r", "w8a8", "--by", "iqr-weights"], 1, "agree about all weights"),
        (["-r", "w8a8", "-r", "w4a8"], 1, "no recipe names any"),
        (["-r", "w8a8", "-o", "x.yaml"], 2, "--max-bytes"),
        ([*IDLE, "--texts", str(TEXTS)], 2, "--texts changes nothing with --by iqr-weights"),
        ([*IDLE, "--tokens", "64"], 2, "--tokens changes nothing with --by iqr-weights"),
        (
            ["-r", "keep", "-r", "w8a8", "--by", "iqr-weights", "--max-bytes", "1"],
            1,
            "the least is",
        ),
        (["-r", "w9a8"], 1, "did you mean `w8a8`"),
        ([], 2, "--recipe"),
    ],
)
def test_what_cannot_be_chosen_is_told(words: list[str], code: int, told: str) -> None:
    ended = command(*words)
    shown = f"{ended.output}{ended.stderr}{ended.exception}"
    assert told in shown
    assert ended.exit_code == code or isinstance(ended.exception, GraphError)
