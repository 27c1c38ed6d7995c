"""Projections of codes: their error bound, what is shared, what is split, what is refused."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.code_pairs import unpack_pairs
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.ops import GroupedLinear, Input, Linear, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.describe_pass import describe_pass, restore_pass
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.insertion.chosen_lines import (
    check_quantized,
    chosen_lines,
    delivered_lines,
    draft_lines,
)
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.site_form import W4A8, W8A8, SiteForm, SiteLine, form_of
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.scaling.granularity import PerChannel
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule

EVERYTHING = InsertQuantization((SiteLine("*", SiteForm()),))
UNIT = 2.0**-53

LAYERS = """
graph @main {
  %0 = input "x" : f32[rows, 16]
  %1 = call %0 {callee="layer", keys=[["w", "layers.0.w"], ["v", "layers.0.v"]]} : f32[rows, 16]
  %2 = call %1 {callee="layer", keys=[["w", "layers.1.w"], ["v", "layers.1.v"]]} : f32[rows, 16]
  %3 = call %2 {callee="layer", keys=[["w", "layers.2.w"], ["v", "layers.2.v"]]} : f32[rows, 16]
  return %3
}

graph @layer {
  %0 = input "x" : f32[rows, 16]
  %1 = param "w" : f32[24, 16]
  %2 = linear %0, %1 : f32[rows, 24]
  %3 = param "v" : f32[16, 24]
  %4 = linear %2, %3 : f32[rows, 16]
  return %4
}
"""


def layer_tensors(seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    tensors = {"x": random.standard_normal((3, 16))}
    for i in range(3):
        tensors[f"layers.{i}.w"] = random.standard_normal((24, 16)) / 4
        tensors[f"layers.{i}.v"] = random.standard_normal((16, 24)) / 5
    return tensors


def product_of(op: Linear | GroupedLinear, x: Array, w: Array, ends: Array) -> Program:
    builder = GraphBuilder("main")
    a = builder.add(Input("x", TensorType(DType.F32, x.shape)))
    b = builder.add(Param("w", TensorType(DType.F32, w.shape)))
    more = ()
    if isinstance(op, GroupedLinear):
        more = (builder.add(Input("ends", TensorType(DType.I32, ends.shape))),)
    return Program((builder.build(builder.add(op, a, b, *more)),))


def random_rows(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return rows of very different sizes, some of zeros, some with an outlier."""
    rows = random.standard_normal(shape) * 10.0 ** random.integers(-20, 20, (*shape[:-1], 1))
    rows[random.random(shape) < 0.1] *= 1000
    return rows * (random.random((*shape[:-1], 1)) < 0.9)


@given(st.integers(0, 2**32 - 1), st.sampled_from((Linear(), GroupedLinear())), st.integers(2, 8))
def test_the_error_is_within_the_bound_that_the_pass_states(
    seed: int, op: Linear | GroupedLinear, bits: int
) -> None:
    """The docstring: ``t/2 sum |x| + s/2 sum |w| + k s t / 4``; a step has ``2^(bits-1) - 1``."""
    random = np.random.default_rng(seed)
    grouped = isinstance(op, GroupedLinear)
    k = int(random.integers(1, 40))
    x = random_rows(random, (7, k))
    w = random_rows(random, (3, 5, k) if grouped else (5, k))
    ends = np.sort(random.integers(0, 8, 3))
    program = product_of(op, x, w, ends)
    quantized = InsertQuantization((SiteLine("w", SiteForm(bits)),)).run(program).program
    verify_program(quantized)
    tensors = {"x": x, "w": w, "ends": ends}
    (exact,), (found,) = (interpret(each, tensors) for each in (program, quantized))
    largest = 119 if bits <= 4 and k % 2 == 0 else 127
    s = np.maximum(np.abs(x).max(-1, keepdims=True), 1e-30) / largest
    t = np.maximum(np.abs(w).max(-1), 1e-30) / (2 ** (bits - 1) - 1)
    inputs, columns = np.abs(x).sum(-1, keepdims=True), np.abs(w).sum(-1)
    if grouped:
        groups = np.searchsorted(ends, np.arange(7), side="right")
        inside = (groups < 3)[:, None]
        t, columns = t[np.minimum(groups, 2)], columns[np.minimum(groups, 2)]
        inputs, s = inputs * inside, s * inside
    bound = t / 2 * inputs + s / 2 * columns + k * s * t / 4
    rounding = 8 * (k + 8) * UNIT * (inputs * np.abs(t) * 128 + bound)
    assert np.all(np.abs(found - exact) <= bound + rounding)


@pytest.mark.parametrize("bits", [8, 4])
def test_codes_of_recipes_are_those_of_round_to_nearest(bits: int) -> None:
    """So a file of codes that a min-max algorithm makes is the same model as ``quant="w8a8"``."""
    random = np.random.default_rng(4)
    w = random.standard_normal((24, 96)).astype(np.float32)
    w[3] *= 1e-6
    stored = round_to_nearest(w, Integer(bits), PerChannel(), ScaleRule())
    form = SiteForm(bits)
    program = product_of(Linear(), np.ones((1, 96)), w, np.zeros(0))
    recipes = InsertQuantization((SiteLine("w", form),)).run(program).program.recipes
    codes, scale = (
        interpret(recipes["main", each], {"w": w})[0] for each in ("w#codes", "w#scale")
    )
    found = unpack_pairs(codes) if bits == 4 else codes
    np.testing.assert_array_equal(found, stored.codes)
    np.testing.assert_array_equal(scale.astype(np.float32), np.ravel(stored.affine.scale))


@pytest.mark.parametrize("op", [Linear(), GroupedLinear()], ids=lambda op: op.mnemonic)
def test_products_by_four_bits_are_those_of_the_same_codes_in_eight(
    op: Linear | GroupedLinear,
) -> None:
    """Digits are another way to the same sums: bit by bit, given the scale of the inputs."""
    random = np.random.default_rng(5)
    grouped = isinstance(op, GroupedLinear)
    x = random.standard_normal((9, 64)).astype(np.float32)
    w = random.standard_normal((3, 6, 64) if grouped else (6, 64)).astype(np.float32)
    ends = np.array([2, 2, 7])
    program = product_of(op, x, w, ends)
    four, eight = (
        InsertQuantization((SiteLine("w", form),)).run(program).program
        for form in (SiteForm(4), SiteForm(8, delivered=True))
    )
    verify_program(four)
    codes, scale = (
        interpret(four.recipes["main", each], {"w": w})[0] for each in ("w#codes", "w#scale")
    )
    assert four.recipes["main", "w#codes"].output_types[0].dtype is DType.I4X2
    wide = interpret(with_steps_of(eight, 119), {"x": x, "ends": ends, "w#scale": scale} | {
        "w#codes": unpack_pairs(codes)
    })  # fmt: skip
    np.testing.assert_array_equal(interpret(four, {"x": x, "w": w, "ends": ends})[0], wide[0])


def with_steps_of(program: Program, largest: int) -> Program:
    """Return a program whose inputs have another largest code."""
    text = print_program(program)
    (before,) = set(re.findall(r"value=(0\.0078[0-9]*)", text))
    return parse_program(text.replace(before, repr(1 / largest)))


def test_an_odd_row_of_four_bits_is_held_in_eight_and_told() -> None:
    program = product_of(Linear(), np.ones((1, 3)), np.ones((2, 3)), np.zeros(0))
    result = InsertQuantization((SiteLine("w", SiteForm(4)),)).run(program)
    assert result.program.recipes["main", "w#codes"].output_types[0].dtype is DType.I8
    (remark,) = result.remarks
    assert "rows of 3 codes of `w` do not lie in pairs: eight bits hold 4" in str(remark)


def test_a_value_for_both_kinds_of_weights_has_two_kinds_of_codes() -> None:
    program = parse_program(LAYERS)
    assert not InsertQuantization((SiteLine("*", SiteForm(4)),)).run(program).remarks
    both = parse_program(
        """
graph @main {
  %0 = input "x" : f32[rows, 16]
  %1 = param "w" : f32[24, 16]
  %2 = param "v" : f32[24, 16]
  %3 = linear %0, %1 : f32[rows, 24]
  %4 = linear %0, %2 : f32[rows, 24]
  return %3, %4
}
"""
    )
    result = InsertQuantization((SiteLine("w", SiteForm(4)), SiteLine("v", SiteForm()))).run(both)
    assert result.statistics == {"projections of codes": 2, "inputs quantized": 2}
    verify_program(result.program)
    assert parse_program(print_program(result.program)) == result.program


def test_experts_of_four_bits_and_the_rest_of_eight() -> None:
    def bits(key: str) -> int:
        form = form_of(W4A8, f"model.layers.3.{key}")
        return form.bits if form else 0

    assert {bits(f"mlp.experts.{n}") for n in ("gate_up_proj", "down_proj")} == {4}
    assert bits("mlp.experts.7.up_proj.weight") == 4
    eight = ("mlp.shared_experts.up_proj", "mlp.up_proj", "self_attn.o_proj", "self_attn.q_b_proj")
    assert {bits(f"{name}.weight") for name in eight} == {8}
    kept = ("self_attn.kv_b_proj.weight", "mlp.gate.weight", "eh_proj.weight", "enorm.weight")
    assert not any(map(bits, kept))
    assert chosen_lines("w4a8") == W4A8
    assert draft_lines("w4a8") == draft_lines("w8a8") == W8A8
    assert draft_lines(W4A8) == W4A8
    assert draft_lines(None) == ()


def test_delivered_pairs_have_four_bits() -> None:
    formats = {"w#codes": DType.I4X2, "v#codes": DType.I8}
    assert delivered_lines(list(formats), formats.__getitem__) == (
        SiteLine("w", SiteForm(4, delivered=True)),
        SiteLine("v", SiteForm(delivered=True)),
    )


def test_delivered_codes_are_read_and_the_weight_is_not() -> None:
    program, tensors = parse_program(LAYERS), layer_tensors()
    made = EVERYTHING.run(program).program
    keys = [f"layers.{i}.{name}" for i in range(3) for name in "wv"]
    delivered = {"x": tensors["x"]}
    for key in keys:
        formal = key[-1]
        for part in ("codes", "scale"):
            recipe = made.recipes["layer", f"{formal}#{part}"]
            delivered[f"{key}#{part}"] = interpret(recipe, {formal: tensors[key]})[0]
    lines = delivered_lines(delivered)
    assert {line.match for line in lines} == set(keys)
    read = InsertQuantization(lines).run(program).program
    verify_program(read)
    assert not read.recipes
    assert not sites_of(read)
    np.testing.assert_array_equal(interpret(read, delivered)[0], interpret(made, tensors)[0])


def test_a_key_with_letters_of_patterns_is_delivered_as_it_is() -> None:
    (line,) = delivered_lines(["a[0]*?#codes", "a[0]*?#scale"])
    assert form_of((line,), "a[0]*?")
    assert not form_of((line,), "a0xy")


def test_layers_that_are_told_different_things_are_split() -> None:
    lines = (SiteLine("layers.1.w", None), SiteLine("layers.2.*", SiteForm(4)))
    rewrite = InsertQuantization((*lines, SiteLine("*", SiteForm())))
    program, tensors = parse_program(LAYERS), layer_tensors()
    result = rewrite.run(program)
    verify_program(result.program)
    assert [graph.name for graph in result.program.graphs] == [
        "main",
        "layer",
        "layer_form1",
        "layer_form2",
    ]
    assert result.statistics == {
        "functions split": 2,
        "projections of codes": 5,
        "inputs quantized": 5,
    }
    assert parse_program(print_program(result.program)) == result.program
    own: list[float] = []
    x = {"x": tensors["x"]}
    for i, bits in enumerate((8, 8, 4)):
        (w, v) = (tensors[f"layers.{i}.{name}"] for name in "wv")
        (y,) = interpret(one_layer(bits, without_w=i == 1), {**x, "w": w, "v": v})
        own.append(float(y.sum()))
        x = {"x": y}
    assert own[-1] == interpret(result.program, tensors)[0].sum()


def one_layer(bits: int, *, without_w: bool) -> Program:
    layer = parse_program(LAYERS).graphs[1]
    lines = (SiteLine("w", None),) if without_w else ()
    return (
        InsertQuantization((*lines, SiteLine("*", SiteForm(bits)))).run(Program((layer,))).program
    )


def test_a_program_without_a_matching_weight_is_the_same_object() -> None:
    program = parse_program(LAYERS)
    assert InsertQuantization((SiteLine("other.*", SiteForm()),)).run(program).program is program
    assert InsertQuantization((SiteLine("*", None),)).run(program).program is program


def test_a_quantized_program_has_nothing_left_to_quantize() -> None:
    made = EVERYTHING.run(parse_program(LAYERS)).program
    assert not sites_of(made)
    assert EVERYTHING.run(made).program is made


def test_sites_are_told_by_checkpoint_key() -> None:
    sites = sites_of(parse_program(LAYERS))
    assert [site.key for site in sites] == [f"layers.{i}.{n}" for i in range(3) for n in "wv"]
    assert {(site.graph, site.parameter) for site in sites} == {("layer", "w"), ("layer", "v")}
    experts = product_of(GroupedLinear(), np.ones((2, 4)), np.ones((3, 5, 4)), np.ones(3))
    assert [(site.key, site.experts) for site in sites_of(experts)] == [("w", 3)]


def test_rows_of_the_cache_keep_their_format() -> None:
    program = parse_program("""
graph @main {
  %0 = input "cache.0" : f32[blocks, 128, 16]
  %1 = input "block_table" : i32[requests, table_blocks]
  %2 = cache_read %0, %1 {context=<context>} : f32[requests, context, 16]
  %3 = param "model.layers.0.self_attn.kv_b_proj.weight" : f32[8, 16]
  %4 = linear %2, %3 : f32[requests, context, 8]
  return %4
}
""")
    assert InsertQuantization(W8A8).run(program).program is program
    with pytest.raises(GraphError, match=r"error\[site-reads-cache\].*kv_b_proj.*absorbs") as told:
        EVERYTHING.run(program)
    assert "kv_b_proj.weight" in told.value.hint


def test_sums_that_could_leave_int32_are_refused() -> None:
    program = product_of(Linear(), np.ones((1, 2**17)), np.ones((1, 2**17)), np.ones(0))
    with pytest.raises(GraphError, match="131072 products of codes can leave int32"):
        EVERYTHING.run(program)


@pytest.mark.parametrize("bits", [1, 9, 0])
def test_a_form_has_two_to_eight_bits(bits: int) -> None:
    with pytest.raises(GraphError, match=r"bad-site-form.*codes of \d bits"):
        SiteForm(bits)


def test_the_preset_takes_what_the_recipes_of_ascend_take() -> None:
    def told(key: str) -> bool:
        return form_of(W8A8, f"model.layers.3.{key}") is not None

    attention = ("q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj")
    assert all(told(f"self_attn.{name}.weight") for name in attention)
    assert all(told(f"mlp.{n}_proj.weight") for n in ("gate", "up", "down"))
    assert all(told(f"mlp.shared_experts.{n}_proj.weight") for n in ("gate", "up", "down"))
    assert all(told(f"mlp.experts.{n}") for n in ("gate_up_proj", "down_proj", "7.up_proj.weight"))
    kept = ("self_attn.kv_b_proj.weight", "mlp.gate.weight", "eh_proj.weight", "enorm.weight")
    assert not any(told(name) for name in kept)
    assert not told("shared_head.head.weight")
    assert form_of(W8A8, "lm_head.weight") is None
    assert form_of(W8A8, "model.embed_tokens.weight") is None


def test_a_preset_is_found_by_name_and_a_wrong_name_is_told() -> None:
    assert chosen_lines("w8a8") == W8A8
    assert chosen_lines(None) == ()
    assert chosen_lines([*W8A8]) == W8A8
    with pytest.raises(GraphError, match=r"quant-preset-not-known.*`w8a9`") as told:
        chosen_lines("w8a9")
    presets = "w4a8, w4a8kv8, w8a8, w8a8kv8"
    assert told.value.hint == f"did you mean `w8a8`? known presets: {presets}"
    with pytest.raises(GraphError, match=r"bad-argument.*`quant` is int 8"):
        chosen_lines(8)  # pyright: ignore[reportArgumentType]


def test_a_choice_that_fits_nothing_is_told_with_keys_of_the_model() -> None:
    program = parse_program(LAYERS)
    check_quantized(EVERYTHING.run(program).program, EVERYTHING.lines)
    check_quantized(program, ())
    with pytest.raises(GraphError, match=r"nothing-quantized") as told:
        check_quantized(program, EVERYTHING.lines)
    assert "`layers.0.w`, `layers.0.v`, `layers.1.w`, 6 in all" in told.value.hint


def test_a_dump_can_make_the_pass_again() -> None:
    assert restore_pass(describe_pass(InsertQuantization(W8A8))) == InsertQuantization(W8A8)
