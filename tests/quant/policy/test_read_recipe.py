"""What recipes say, and what is said of recipes that say it wrongly."""

from pathlib import Path

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.ssz import Ssz
from ascendfx.quant_passes.algorithms.sszw import Sszw
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.policy.read_recipe import read_recipe, recipe_of
from ascendfx.quant_passes.policy.recipe import (
    Calibration,
    LatentCache,
    SitePolicy,
    TextShare,
    draft_layers,
    is_draft,
)
from ascendfx.quant_passes.policy.shipped import recipe_named, recipe_names
from ascendfx.quant_passes.scaling.granularity import PerBlock, PerChannel, PerGroup
from ascendfx.quant_passes.scaling.scale_rule import MSMODELSLIM, ScaleRule

LINE = 'sites:\n  - match: "*"\n    weight: int4\n'


def policy(text: str) -> SitePolicy:
    (line,) = recipe_of(f'sites:\n  - match: "*"\n    {text}').lines
    assert line.policy is not None
    return line.policy


def test_a_line_alone_is_rounding_per_channel_of_weights_only() -> None:
    found = policy("weight: int4")
    assert found.algorithm == MinMax()
    assert found.spec.format == Integer(4)
    assert found.spec.granularity == PerChannel()
    assert found.spec.rule == ScaleRule()
    assert found.activation is None
    assert not found.needs


def test_a_line_says_everything_of_a_weight() -> None:
    found = policy(
        "weight: uint4\n    granularity: group 32\n    rule: msmodelslim\n    symmetric: false\n"
        "    scales: bf16\n    algorithm: gptq\n    activation: static\n"
        "    options:\n      damping: 1e-2\n      act_order: false\n"
        "      scales: {algorithm: ssz, weighted: true, compute: f32}\n      fallback: ssz"
    )
    scales = Ssz(weighted=True, compute=DType.F32)
    assert found.algorithm == Gptq(act_order=False, damping=0.01, scales=scales, fallback=Ssz())
    assert found.spec.granularity == PerGroup(32)
    assert found.spec.rule.zero_first == MSMODELSLIM.zero_first
    assert found.scheme.scales is DType.BF16
    assert not found.scheme.symmetric
    assert found.needs == {"moments", "absmax"}


def test_a_list_of_algorithms_is_an_option() -> None:
    found = policy("weight: int4\n    algorithm: sszw\n    options: {starts: [ssz, min_max]}")
    assert found.algorithm == Sszw(starts=(Ssz(), MinMax()))


def test_blocks_have_rows_and_columns() -> None:
    found = policy("weight: float8_e4m3fn\n    granularity: block 128x64")
    assert found.spec.format == E4M3FN()
    assert found.spec.granularity == PerBlock(128, 64)


def test_the_first_line_decides_and_drafts_have_lines_of_their_own() -> None:
    recipe = recipe_of(
        'sites:\n  - {match: "*.o_proj.*", keep: true}\n'
        '  - {match: "*.experts.*", only: draft, weight: int8}\n'
        '  - {match: ["*.experts.*", "*_proj.*"], weight: int4}\n'
    )

    def bits(key: str, *, draft: bool = False) -> float | None:
        found = recipe.policy_of(key, draft=draft)
        return found.spec.format.bits if found else None

    assert bits("model.layers.3.mlp.experts.0.up_proj.weight") == 4
    assert bits("model.layers.3.mlp.experts.0.up_proj.weight", draft=True) == 8
    assert bits("model.layers.3.self_attn.o_proj.weight") is None
    assert bits("model.norm.weight") is None


def test_calibration_reads_texts_beside_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"{LINE}calibration:\n  texts: [a.txt, {{file: b.jsonl, share: 3}}]\n  tokens: 99\n"
        "  inputs: quantized\n"
        "kv_cache: {format: int8, keep_layers: [0, 2]}\n",
        encoding="utf-8",
    )
    recipe = read_recipe(file)
    sets = TextShare(tmp_path / "a.txt"), TextShare(tmp_path / "b.jsonl", 3.0)
    assert recipe.name == "mine"
    assert recipe.calibration == Calibration(sets, tokens=99, inputs="quantized")
    assert recipe.cache == LatentCache(frozenset({0, 2}))
    assert recipe.needs == {"absmax"}


def test_what_decides_the_result_is_in_the_representation() -> None:
    one, moved = recipe_of(LINE), recipe_of(f"# a comment\n\n{LINE}")
    assert repr(one) == repr(moved)
    assert repr(one) != repr(recipe_of(LINE.replace("int4", "int3")))


@pytest.mark.parametrize(
    ("text", "line", "code", "words"),
    [
        ("", 1, "bad-recipe", "is empty"),
        ("sites: [", 1, "bad-recipe", "is no YAML"),
        ("sites:\n  - match: *_proj\n", 2, "bad-recipe", "is no YAML"),
        ("- a", 1, "bad-recipe", "is a list and should have fields"),
        ("site: 1", 1, "bad-recipe", "did you mean `sites`?"),
        ("calibration: {}", 1, "bad-recipe", "lacks `sites`"),
        ("sites: []", 1, "bad-recipe", "has no lines"),
        ("sites: 3", 1, "bad-recipe", "has no lines"),
        (f"{LINE}    wieght: int8", 4, "bad-recipe", "did you mean `weight`?"),
        (f"{LINE}    weight: int8", 4, "bad-recipe", "stands twice"),
        (f"{LINE}    keep: true", 3, "bad-recipe", "keeps the format, and has `weight`"),
        (f"{LINE}    granularity: groups 3", 4, "bad-recipe", "`group 128`"),
        (f"{LINE}    granularity: group 0", 4, "bad-granularity", "group"),
        (f"{LINE}    algorithm: gptqq", 4, "algorithm-not-known", "did you mean `gptq`?"),
        (f"{LINE}    options: {{a: 1}}", 4, "bad-recipe", "of no algorithm"),
        (f"{LINE}    activation: dynamc", 4, "bad-recipe", "did you mean `dynamic`?"),
        (f"{LINE}    rule: exakt", 4, "bad-recipe", "did you mean `exact`?"),
        (f"{LINE}    symmetric: 3", 4, "bad-recipe", "true or false"),
        (f"{LINE}    scales: f31", 4, "bad-recipe", "did you mean `f32`?"),
        (f"{LINE}    only: drafts", 4, "bad-recipe", "did you mean `draft`?"),
        ('sites:\n  - match: "*"\n    weight: int44', 3, "format-not-known", "did you mean"),
        ('sites:\n  - match: "*"\n    weight: hifloat4', 3, "bad-recipe", "scales of its own"),
        ("sites:\n  - match: []\n    weight: int4", 2, "bad-recipe", "no pattern"),
        ("sites:\n  - match: 3\n    weight: int4", 2, "bad-recipe", "no text"),
        ('sites:\n  - weight: int4\n    match: "*"\n    only: draft', 3, "bad-recipe", "`*.`"),
        (f"{LINE}calibration: {{tokens: 0}}", 4, "bad-recipe", "whole number from 1 on"),
        (f"{LINE}calibration: {{tokens: true}}", 4, "bad-recipe", "whole number"),
        (f"{LINE}calibration: {{inputs: made}}", 4, "bad-recipe", "original"),
        (f"{LINE}calibration: {{text: a}}", 4, "bad-recipe", "did you mean `texts`?"),
        (f"{LINE}calibration: {{texts: [{{file: a, share: 0}}]}}", 4, "bad-recipe", "positive"),
        (f"{LINE}calibration: {{texts: [{{file: a, share: .inf}}]}}", 4, "bad-recipe", "a number"),
        (f"{LINE}kv_cache: int4", 4, "bad-recipe", "known: int8"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, code: str, words: str) -> None:
    with pytest.raises(GraphError, match=code) as caught:
        recipe_of(text, file="my.yaml")
    assert caught.value.location.line == line
    assert caught.value.location.file == "my.yaml"
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{dampening: 0.1}", "did you mean `damping`?"),
        ("{damping: much}", "write a number"),
        ("{act_order: 1}", "true or false"),
        ("{damping: -1.0}", "bad-algorithm"),
        ("{fallback: {weighted: true}}", "lacks `algorithm`"),
        ("{fallback: {algorithm: ssz, weigthed: true}}", "did you mean `weighted`?"),
        ("3", "should have fields"),
    ],
)
def test_options_are_checked(options: str, words: str) -> None:
    with pytest.raises(GraphError, match=r"<recipe>:5") as caught:
        recipe_of(f"{LINE}    algorithm: gptq\n    options: {options}")
    assert words in str(caught.value)


def test_presets_have_names() -> None:
    assert recipe_names() == ("w4a8", "w4a8-gptq", "w4a8kv8", "w8a8")
    with pytest.raises(GraphError, match="did you mean `w8a8`"):
        recipe_named("W8A8")
    with pytest.raises(GraphError, match="recipe-not-readable"):
        recipe_named("nowhere.yaml")


def test_presets_are_those_of_the_loader() -> None:
    """Section 4 of the facts on quantization: DeepSeek recipes that Ascend ships."""
    keys = {
        "model.layers.61.mlp.experts.3.up_proj.weight": ("int8", "int8", "min_max"),
        "model.layers.4.mlp.experts.3.up_proj.weight": ("int8", "int4", "ssz"),
        "model.layers.4.mlp.shared_experts.up_proj.weight": ("int8", "int8", "min_max"),
        "model.layers.4.self_attn.kv_a_proj_with_mqa.weight": ("int8", "int8", "min_max"),
        "model.layers.4.self_attn.q_b_proj.weight": ("int8", "int8", "min_max"),
        "model.layers.4.self_attn.kv_b_proj.weight": None,
        "model.layers.4.mlp.gate.weight": None,
        "model.layers.4.mlp.gate.e_score_correction_bias": None,
        "model.layers.61.eh_proj.weight": None,
        "model.layers.61.shared_head.head.weight": None,
        "lm_head.weight": None,
        "model.embed_tokens.weight": None,
        "model.layers.4.self_attn.q_a_layernorm.weight": None,
    }
    drafts = draft_layers({"num_hidden_layers": 61, "num_nextn_predict_layers": 1})
    for key, wanted in keys.items():
        for name in recipe_names():
            found = recipe_named(name).policy_of(key, draft=is_draft(key, drafts))
            if wanted is None:
                assert found is None
                continue
            assert found is not None
            assert found.activation == "dynamic"
            assert found.spec.granularity == PerChannel()
            eight, four, by = wanted
            assert found.spec.format.name == (eight if name == "w8a8" else four)
            if by == "ssz" and name == "w4a8-gptq":
                by = "gptq"
            assert found.algorithm.name == ("min_max" if name == "w8a8" else by)
    assert recipe_named("w4a8kv8").cache == LatentCache()
    assert recipe_named("w4a8kv8").lines == recipe_named("w4a8").lines
    assert not recipe_named("w4a8").needs
    assert recipe_named("w4a8-gptq").needs


@pytest.mark.parametrize("config", [None, {}, {"num_hidden_layers": "3"}])
def test_a_model_without_draft_layers_has_none(config: object) -> None:
    assert list(draft_layers(config)) == []


@pytest.mark.parametrize(
    "value",
    ["!foo 4", "!!int abc", "!!bool abc", '!!int ""', "2026-99-99", "0x_", "=", "1" + "0" * 400,
     "1" + "0" * 5000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_values_that_yaml_itself_cannot_make_are_refused_with_their_line(value: str) -> None:
    with pytest.raises(GraphError) as caught:
        recipe_of(f"{LINE}calibration:\n  tokens: {value}\n")
    assert caught.value.code == "bad-recipe"
    assert caught.value.location.line == 5


def test_a_number_beyond_floats_is_refused() -> None:
    with pytest.raises(GraphError, match="share"):
        recipe_of(f"{LINE}calibration:\n  texts: [{{file: a.txt, share: 1{'0' * 400}}}]\n")


_TWICE = "".join(f"  - &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 30))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 1000, "nested more than 64 deep"),
        ("sites: " + "[" * 80 + "]" * 80, "nested more than 64 deep"),
        ("sites: &a [*a]", "nested more than 64 deep"),
        (f"sites:\n  - &b0 [a]\n{_TWICE}", "more than 65,536 values"),
        (
            f"{LINE}    algorithm: gptq\n    options: "
            "{fallback: &a {algorithm: gptq, fallback: *a}}",
            "nested more than 64 deep",
        ),
    ],
    ids=["open", "closed", "itself", "doubled", "algorithm"],
)
def test_endless_recipes_are_refused(text: str, reason: str) -> None:
    with pytest.raises(GraphError, match=reason) as caught:
        recipe_of(text)
    assert caught.value.code == "bad-recipe"
