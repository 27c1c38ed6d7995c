"""Modelled time of products: bound by bytes with few rows, by the cube with many."""

import pytest

from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.mixed_precision.unit import Piece
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.runtime.quantize.modelled_seconds import modelled_seconds

TARGET = find_target("ascend910b2")
ALONE = Piece("a.weight", 0, ("a.weight",), (7168, 2048))
EXPERT = Piece("b", 0, ("b.0.gate.weight", "b.0.up.weight"), (4096, 7168), experts=256)


def seconds(form: str | None, rows: int, piece: Piece = ALONE) -> float:
    lines = f'sites: [{{match: "*", {form}}}]' if form else 'sites: [{match: "*", keep: true}]'
    policies = [recipe_of(lines).policy_of(name) for name in piece.names]
    return modelled_seconds(TARGET, DType.BF16, chosen=8, rows=rows)(piece, policies)


def test_few_rows_wait_for_weights() -> None:
    kept = seconds(None, 1)
    assert seconds("weight: int8, activation: dynamic", 1) == pytest.approx(kept / 2)
    assert seconds("weight: int4, activation: dynamic", 1) == pytest.approx(kept / 4)


def test_many_rows_wait_for_the_cube() -> None:
    kept = seconds(None, 8192)
    eight = seconds("weight: int8, activation: dynamic", 8192)
    assert eight == pytest.approx(kept / 2)
    assert seconds("weight: int4, activation: dynamic", 8192) == pytest.approx(eight)  # two digits


@pytest.mark.parametrize("form", ["weight: int4", "weight: nf4, activation: dynamic"])
def test_what_is_no_product_of_codes_takes_as_long_as_numbers(form: str) -> None:
    assert seconds(form, 32) == pytest.approx(seconds(None, 32))


def test_an_expert_is_read_as_often_as_it_is_chosen() -> None:
    whole = seconds(None, 1, Piece("b", 0, EXPERT.names, EXPERT.shape))
    assert seconds(None, 1, EXPERT) == pytest.approx(whole * 8 / 256, rel=1e-6)
