"""The recipe of some choices is read as those choices; the picture of a front is one."""

from itertools import cycle
from pathlib import Path
from xml.etree import ElementTree

from ascendfx.quant_passes.mixed_precision.front_svg import front_svg
from ascendfx.quant_passes.mixed_precision.measure_units import JudgedUnit
from ascendfx.quant_passes.mixed_precision.mixed_recipe import mixed_recipe_text
from ascendfx.quant_passes.mixed_precision.pareto_front import FrontPoint
from ascendfx.quant_passes.mixed_precision.unit import Unit
from ascendfx.quant_passes.policy.read_recipe import read_recipe
from ascendfx.quant_passes.policy.shipped import recipe_named
from tests.quant.mixed_precision.small_model import INT4, INT8, KEEP, units

BASE = recipe_named("w8a8")


def written(made: tuple[Unit, ...]) -> tuple[str, tuple[int, ...]]:
    judged = [JudgedUnit(unit, tuple(map(float, range(len(unit.choices))))) for unit in made]
    turns = cycle((2, 0, 1))
    choices = tuple(next(turns) % len(unit.choices) for unit in made)
    text = mixed_recipe_text(judged, choices, BASE, measure="kl", head=("Two", "lines"))
    return text, choices


def test_each_weight_becomes_what_was_chosen(tmp_path: Path) -> None:
    for by_expert in (False, True):
        made = units(KEEP, INT8, INT4, by_expert=by_expert)
        text, choices = written(made)
        file = tmp_path / "mixed.yaml"
        file.write_text(text, encoding="utf-8")
        recipe = read_recipe(file)
        for unit, choice in zip(made, choices, strict=True):
            for name, policy in zip(unit.names, unit.choices[choice].policies, strict=True):
                assert recipe.policy_of(name) == policy
        assert recipe.policy_of("model.layers.9.mlp.down_proj.weight") == BASE.policy_of(
            "*_proj.weight"
        )


def test_each_line_tells_its_scores() -> None:
    text, _ = written(units(KEEP, INT8, INT4))
    assert text.startswith("# Two\n# lines\n\nsites:\n  # kl: keep 0 (chosen), int8 1, int4 2\n")
    assert text.count("(chosen)") == sum(len(unit.choices) > 1 for unit in units())


def test_experts_that_share_a_choice_share_a_line() -> None:
    together, _ = written(units(KEEP, INT8))
    apart, _ = written(units(KEEP, INT8, by_expert=True))
    assert ".experts.*.gate_proj.weight" in together
    assert ".experts.1.gate_proj.weight" not in together
    assert ".experts.1.gate_proj.weight" in apart


def test_the_picture_has_a_dot_per_point() -> None:
    points = [FrontPoint(10.0, 0.5, ()), FrontPoint(20.0, 0.002, ()), FrontPoint(30.0, 0.0, ())]
    text = front_svg(points, {"a<b": (20.0, 0.2)}, cost="bytes", score="kl")
    root = ElementTree.fromstring(text)  # noqa: S314  # our own
    names = [each.tag.rpartition("}")[2] for each in root.iter()]
    assert names.count("circle") == 4
    assert names.count("polyline") == 1
    assert "a<b" in [each.text for each in root.iter()]
    heights = [float(each.get("cy", 0)) for each in root.iter() if each.tag.endswith("circle")]
    assert heights[0] < heights[3] < heights[1] < heights[2]  # the worse, the higher
    assert front_svg([FrontPoint(1.0, 0.0, ())], {}, cost="bytes", score="kl")
