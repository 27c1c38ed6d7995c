"""Recipes for programs, and which of them no program can compute."""

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.insertion.cache_form import LATENTS, CacheLine
from ascendfx.quant_passes.insertion.site_form import W8A8, SiteLine, form_of
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.shipped import recipe_named
from ascendfx.quant_passes.policy.site_lines import site_lines

LINE = 'sites:\n  - match: "*"\n    weight: int4\n    activation: dynamic\n'


def test_the_preset_is_that_of_compilations() -> None:
    assert site_lines(recipe_named("w8a8")) != ()
    lines = site_lines(recipe_named("w8a8"))
    assert sorted(map(repr, lines)) == sorted(map(repr, W8A8))
    assert [line.match for line in lines] == [line.match for line in W8A8]


def test_draft_layers_have_forms_of_their_own() -> None:
    recipe = recipe_of(
        'sites:\n  - {match: "*.experts.*", only: draft, weight: int8, activation: dynamic}\n'
        '  - {match: ["*.experts.*", "*_proj.*"], weight: int4, activation: dynamic}\n'
    )
    lines = [line for line in site_lines(recipe, (61, 62)) if isinstance(line, SiteLine)]
    bits = {
        layer: [
            form.bits if (form := form_of(lines, f"model.layers.{layer}.{key}")) else None
            for key in ("experts.0.up_proj.weight", "mlp.experts.gate_up_proj", "o_proj.weight")
        ]
        for layer in (6, 60, 61, 62)
    }
    assert bits == {6: [4, 4, 4], 60: [4, 4, 4], 61: [8, 8, 4], 62: [8, 8, 4]}
    assert len(site_lines(recipe)) == 2


def test_a_cache_of_codes_is_that_of_all_layers_but_those_that_are_kept() -> None:
    lines = site_lines(recipe_of(LINE + "kv_cache: {format: int8, keep_layers: [0, 2]}\n"), (3,))
    assert [line for line in lines if isinstance(line, CacheLine)] == [
        *(CacheLine(f"*.layers.{layer}.*", None) for layer in (0, 2, 3)),
        CacheLine("*"),
    ]
    assert site_lines(recipe_of(LINE + "kv_cache: int8\n"))[1:] == LATENTS


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("    algorithm: ssz\n", "ssz chooses the codes"),
        ("    granularity: group 32\n", "scales are per group"),
        ("    rule: full_range\n", "a rule of its own"),
    ],
)
def test_what_programs_do_not_make_is_refused(more: str, why: str) -> None:
    with pytest.raises(GraphError, match="recipe-not-runnable") as caught:
        site_lines(recipe_of(LINE + more))
    assert why in str(caught.value)
    assert caught.value.location.line == 2


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (LINE.replace("int4", "nf4"), "codes are nf4"),
        (LINE.replace("int4", "uint4"), "codes are uint4"),
        (LINE.replace("dynamic", "static"), "not quantized by token"),
    ],
)
def test_other_codes_and_inputs_are_refused(wrong: str, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        site_lines(recipe_of(wrong))
