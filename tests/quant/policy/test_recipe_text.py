"""Recipes as YAML are read as what they were."""

from dataclasses import replace
from pathlib import Path

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Recipe, RecipeLine, SitePolicy
from ascendfx.quant_passes.policy.recipe_text import recipe_text
from ascendfx.quant_passes.policy.shipped import recipe_named, recipe_names
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerToken
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule

OPTIONS = """
sites:
  - match: ["*.a.weight", "b: #'?"]
    only: draft
    keep: true
  - {match: "*.c", weight: int4, algorithm: gptq, options: {act_order: false, damping: 1e-05,
     groups: static, scales: {algorithm: ssz, weighted: true}, fallback: ssz}}
  - {match: d, weight: uint4, granularity: group 32, rule: msmodelslim, symmetric: false,
     scales: bf16, algorithm: hqq, activation: static}
  - {match: e, weight: float8_e4m3fn, granularity: block 128x64, rule: full_range, scales: f16}
  - {match: f, weight: int8-narrow, granularity: tensor, activation: dynamic}
kv_cache: {format: int8, keep_layers: [3, 1]}
calibration: {texts: [{file: a b.jsonl, share: 0.5}, "c:d.txt"], tokens: 10, length: 5, seed: 2}
"""


@pytest.mark.parametrize("name", recipe_names())
def test_shipped_recipes_are_read_back(name: str) -> None:
    recipe = recipe_named(name)
    assert recipe_of(recipe_text(recipe), file=name) == recipe


def test_all_options_are_read_back(tmp_path: Path) -> None:
    text = OPTIONS.replace('"b: #\'?"', '"*.b: #\'?"')
    recipe = recipe_of(text, file="x", folder=tmp_path)
    written = recipe_text(recipe)
    assert recipe_of(written, file="x", folder=Path("elsewhere")) == recipe
    assert "damping: 1e-05" in written
    assert "act_order: false" in written
    assert "groups" not in written  # as usual


SPEC = WeightSpec(Integer(8), PerChannel())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (replace(SPEC, granularity=PerToken()), "per token"),
        (replace(SPEC, rule=ScaleRule(smallest_scale=1.0)), "scale rule"),
        (replace(SPEC, rule=ScaleRule(reach=3.0)), "scale rule"),
    ],
)
def test_what_has_no_words_is_told(spec: WeightSpec, words: str) -> None:
    recipe = Recipe("x", (RecipeLine(("*",), SitePolicy(spec, MIN_MAX)),))
    with pytest.raises(GraphError, match="recipe-not-writable") as caught:
        recipe_text(recipe)
    assert words in str(caught.value)
