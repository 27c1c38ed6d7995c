"""What is chosen about together: what loaders read as one, and what one product multiplies by."""

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.ascend_limits import loaded_with
from ascendfx.quant_passes.mixed_precision.unit import Piece
from ascendfx.quant_passes.mixed_precision.unit_costs import (
    bytes_per_token,
    costs_of,
    is_storable,
    stored_bytes,
)
from ascendfx.quant_passes.mixed_precision.units_of import units_of
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Recipe
from ascendfx.quant_passes.policy.shipped import recipe_named

HEAD = "model.layers.3."
KEEP = Recipe("keep", ())
RECIPES = (KEEP, recipe_named("w8a8"), recipe_named("w4a8"))


def alone(name: str) -> Piece:
    return Piece(HEAD + name, 0, (HEAD + name,), (64, 32))


def experts(count: int) -> list[Piece]:
    head = HEAD + "mlp.experts."
    gate_up = [
        Piece(
            head + "gate_up_proj",
            e,
            (f"{head}{e}.gate_proj.weight", f"{head}{e}.up_proj.weight"),
            (64, 32),
            count,
        )
        for e in range(count)
    ]
    down = [
        Piece(head + "down_proj", e, (f"{head}{e}.down_proj.weight",), (32, 32), count)
        for e in range(count)
    ]
    return [*gate_up, *down]


PIECES = (
    alone("self_attn.q_a_proj.weight"),
    alone("self_attn.q_b_proj.weight"),
    alone("self_attn.kv_a_proj_with_mqa.weight"),
    *experts(3),
    alone("mlp.shared_experts.gate_proj.weight"),
    alone("mlp.shared_experts.up_proj.weight"),
    alone("mlp.gate.weight"),
)


def sizes(**options: object) -> list[int]:
    return [len(unit.pieces) for unit in units_of(PIECES, RECIPES, **options)]  # pyright: ignore[reportArgumentType]


def test_what_loaders_read_as_one_is_one() -> None:
    found = units_of(PIECES, RECIPES, together=loaded_with)
    names = [[name.removeprefix(HEAD) for name in unit.names] for unit in found]
    assert names[0] == ["self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight"]
    assert names[1] == ["self_attn.q_b_proj.weight"]
    assert names[2] == [name.removeprefix(HEAD) for p in PIECES[3:9] for name in p.names]
    assert [len(each) for each in names[3:]] == [2, 1]


def test_without_a_loader_sites_are_one_each() -> None:
    assert sizes() == [1, 1, 1, 3, 3, 1, 1, 1]


def test_experts_may_differ_where_nobody_minds() -> None:
    assert sizes(by_expert=True) == [1] * 12
    assert sizes(by_expert=True, together=loaded_with) == [2, 1, 6, 2, 1]


NAMES = ("ab", "b", "c", "a")
"""Of four matrices: the names of their parts, and labels of their own."""


def test_what_is_joined_through_others_is_one() -> None:
    pieces = [Piece(f"s{i}", 0, tuple(names), (2, 2)) for i, names in enumerate(NAMES)]
    recipes = (KEEP, recipe_of('sites: [{match: "*", weight: int8}]'))
    found = units_of(pieces, recipes)
    assert [unit.sites for unit in found] == [("s0", "s1", "s3"), ("s2",)]


def test_equal_policies_are_one_choice() -> None:
    found = {unit.name: unit for unit in units_of(PIECES, RECIPES, together=loaded_with)}
    told = {
        name.removeprefix(HEAD): [choice.recipes for choice in unit.choices]
        for name, unit in found.items()
    }
    assert told["self_attn.q_b_proj.weight"] == [("keep",), ("w8a8", "w4a8")]
    assert told["mlp.experts.0.gate_proj.weight"] == [("keep",), ("w8a8",), ("w4a8",)]
    assert told["mlp.gate.weight"] == [("keep", "w8a8", "w4a8")]


INT4 = recipe_of(
    'sites: [{match: "*_proj.weight", weight: int4, activation: dynamic}]', file="int4"
)
HALF = recipe_of(
    """sites:
  - {match: "*.gate_proj.weight", weight: int8, activation: dynamic}
  - {match: "*.experts.*", weight: int4, activation: dynamic}""",
    file="half",
)


def test_what_cannot_be_stored_is_no_choice() -> None:
    storable = is_storable(AscendForm(), DType.BF16)
    found = units_of(PIECES, (KEEP, INT4, HALF), together=loaded_with, storable=storable)
    told = {unit.name.removeprefix(HEAD): [c.name for c in unit.choices] for unit in found}
    assert told["self_attn.q_b_proj.weight"] == ["keep"]  # int4 is for experts
    assert told["mlp.experts.0.gate_proj.weight"] == [
        "keep",
        "int4",
    ]  # gate and up are loaded as one
    with pytest.raises(GraphError, match="nothing-to-choose") as caught:
        units_of(PIECES, (INT4,), storable=storable)
    assert "q_a_proj" in str(caught.value)


def test_costs_are_the_tensors_of_the_form() -> None:
    (unit,) = units_of(experts(3), RECIPES, together=loaded_with)
    kept, eight, four = costs_of(unit, stored_bytes(AscendForm(), DType.BF16))
    numbers, rows = 3 * (64 + 32) * 32, 3 * (64 + 32)
    assert kept == 2 * numbers
    assert eight == numbers + 8 * rows  # scale and offset
    assert four == numbers // 2 + 8 * rows + 3 * 4 * (64 + 32 * 16)  # bias, of down_proj in 16
    form = AscendForm()
    once = costs_of(unit, bytes_per_token(form, DType.BF16, chosen=1))
    assert once[0] == pytest.approx(kept / 3)
    twice = costs_of(unit, bytes_per_token(form, DType.BF16, chosen=1, rows=2))
    assert twice[0] == pytest.approx(kept * (1 - (2 / 3) ** 2) / 2)
