"""The plan that a recipe makes of weights, and each weight of it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import StaticInputs
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.shipped import recipe_named
from ascendfx.quant_passes.quantize_weights import Quantization, layer_of, static_inputs
from ascendfx.quant_passes.scaling.granularity import PerChannel
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule
from ascendfx.quant_passes.statistics import InputStatistics, statistics_of, without_tokens

KV_B = "model.layers.{}.self_attn.kv_b_proj.weight"
EXPERT = "model.layers.{}.mlp.experts.0.up_proj.weight"
SHAPES = {
    "lm_head.weight": (12, 8),
    "model.norm.weight": (8,),
    "model.embed_tokens.weight": (12, 8),
    EXPERT.format(10): (6, 8),
    KV_B.format(10): (6, 4),
    "model.layers.2.self_attn.o_proj.weight": (8, 6),
    "model.layers.2.input_layernorm.weight": (8,),
    KV_B.format(2): (6, 4),
    EXPERT.format(11): (6, 8),
    KV_B.format(11): (6, 4),
}
DRAFTS = (11,)


def arrays() -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(2)
    return {key: random.standard_normal(size).astype(np.float32) for key, size in SHAPES.items()}


def seen(key: str) -> InputStatistics:
    rows = np.random.default_rng(len(key)).standard_normal((64, SHAPES[key][-1]))
    return statistics_of(rows)


def quantization(text: str, **options: object) -> Quantization:
    recipe = recipe_named(text) if "\n" not in text else recipe_of(text)
    return Quantization(recipe, ArraySource(arrays()), DRAFTS, **options)  # pyright: ignore[reportArgumentType]


def planned(text: str, **options: object) -> dict[str, PlannedTensor]:
    return {each.name: each for each in quantization(text, **options).plan()}


def line(more: str) -> str:
    return f'sites:\n  - match: "*.o_proj.weight"\n    {more}\n'


def test_layers_are_made_in_order() -> None:
    keys = [each.name for each in quantization("w8a8").plan()]
    assert [layer_of(key) for key in keys] == sorted(map(layer_of, SHAPES))
    assert keys[0] == "model.embed_tokens.weight"
    assert keys[-2:] == ["lm_head.weight", "model.norm.weight"]
    assert layer_of(keys[1]) == 2


def test_weights_are_those_of_the_algorithm_and_the_rest_is_kept() -> None:
    plan = planned("w4a8")
    bits = {key: each.scheme.format.bits for key, each in plan.items() if each.scheme}
    assert bits == {
        EXPERT.format(10): 4,
        EXPERT.format(11): 8,
        "model.layers.2.self_attn.o_proj.weight": 8,
    }
    for key, each in plan.items():
        made = each.make()
        assert made.activation == ("dynamic" if each.scheme else None)
        if each.scheme is None:
            np.testing.assert_array_equal(made.weight, arrays()[key])  # pyright: ignore[reportArgumentType]
    made = plan[EXPERT.format(11)].make().weight
    rounded = round_to_nearest(arrays()[EXPERT.format(11)], Integer(8), PerChannel(), ScaleRule())
    assert isinstance(made, QuantizedTensor)
    np.testing.assert_array_equal(made.codes, rounded.codes)


def test_statistics_are_asked_for_only_where_they_are_needed() -> None:
    asked: list[str] = []

    def statistics(key: str) -> InputStatistics:
        asked.append(key)
        return seen(key)

    text = (
        line("weight: int4\n    algorithm: gptq") + '  - match: "*.experts.*"\n    weight: int4\n'
    )
    task = quantization(text, statistics=statistics)
    for each in task.plan():
        each.make()
    assert asked == ["model.layers.2.self_attn.o_proj.weight"]


def test_what_algorithms_say_is_kept() -> None:
    task = quantization(
        line("weight: int4\n    algorithm: gptq"),
        statistics=lambda key: without_tokens(SHAPES[key][-1]),
    )
    for each in task.plan():
        each.make()
    assert list(task.remarks) == ["model.layers.2.self_attn.o_proj.weight"]


def test_static_inputs_have_the_range_of_calibration() -> None:
    text = line("weight: int8\n    activation: static")
    made = planned(text, statistics=seen)["model.layers.2.self_attn.o_proj.weight"].make()
    assert isinstance(made.activation, StaticInputs)
    known = seen("model.layers.2.self_attn.o_proj.weight")
    step, zero = made.activation.scale, made.activation.zero
    assert (-128 - zero) * step <= known.minimum.min() + step / 2
    assert (127 - zero) * step >= known.maximum.max() - step / 2
    assert step == pytest.approx((known.maximum.max() - known.minimum.min()) / 255)


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero"), [(0, 0, 1, 0), (2, 5.1, 0.02, -128), (-5.1, -2, 0.02, 127)]
)
def test_zero_has_a_code(low: float, high: float, scale: float, zero: int) -> None:
    found = static_inputs("w", statistics_of(np.array([[low], [high]])))
    assert (found.scale, found.zero) == (pytest.approx(scale), zero)


def test_the_latent_cache_has_a_scale_where_it_is_not_kept() -> None:
    text = f"{line('weight: int8')}kv_cache: {{format: int8, keep_layers: [2]}}\n"
    plan = planned(text, statistics=seen)
    scales = {key: each for key, each in plan.items() if ".fa_k." in key}
    head = "model.layers.10.self_attn.fa_k"
    assert list(scales) == [f"{head}.scale", f"{head}.offset"]
    assert all(each.dtype is DType.F32 and each.shape == (1, 1) for each in scales.values())
    scale = scales[f"{head}.scale"].make().weight
    assert isinstance(scale, np.ndarray)
    assert scale[0, 0] == np.float32(seen(KV_B.format(10)).absmax.max() / 127)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (line("weight: int8").replace("o_proj", "q_proj"), "nothing-quantized", "fits no weight"),
        (line("weight: int8").replace("o_proj", "*norm"), "bad-recipe", "no weight [out, in]"),
        (line("weight: int8\n    granularity: group 4"), "bad-granularity", "layers.2.self_attn"),
    ],
)
def test_what_cannot_be_planned_is_told(text: str, code: str, words: str) -> None:
    with pytest.raises(GraphError, match=code) as caught:
        quantization(text).plan()
    assert words in str(caught.value)
    assert code == "nothing-quantized" or caught.value.location.line == 2


@pytest.mark.parametrize("inputs", [None, without_tokens(6)])
@pytest.mark.parametrize("more", ["activation: static", "algorithm: min_max"])
def test_what_calibration_did_not_see_is_told(inputs: InputStatistics | None, more: str) -> None:
    text = line(f"weight: int8\n    {more}") + "kv_cache: int8\n"
    plan = planned(text, statistics=lambda _key: inputs)
    with pytest.raises(GraphError, match="statistics-missing"):
        [each.make() for each in plan.values()]


def test_what_an_algorithm_refuses_is_told_with_the_weight() -> None:
    plan = planned(line("weight: nf4\n    algorithm: ssz"))
    with pytest.raises(GraphError, match="bad-format") as caught:
        plan["model.layers.2.self_attn.o_proj.weight"].make()
    assert caught.value.notes == ("the weight is `model.layers.2.self_attn.o_proj.weight`",)


def test_lines_that_decide_about_nothing_are_told() -> None:
    text = line("weight: int8") + '  - {match: "*.o_proj.*", keep: true}\n'
    (idle,) = quantization(text).idle_lines()
    assert idle.location.line == 4
