"""Transforms that are folded into the weights of a model leave it as it is, up to rounding.

The bound of the comparison. Both programs are evaluated in float64. A sum of ``k`` products is off
by at most ``k u`` of the sum of magnitudes (``u = 2^-53``), and a layer passes what is off on to
the next one; the model's logits are sums of at most 512 terms in each of some 60 projections in a
row. An error that is real, such as a channel without its factor, is larger by ten orders.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Param
from ascendfx.ir.program import Program, param_names
from ascendfx.ir.tensor_source import ArraySource, LayeredSource, TensorsByKey
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.rotation_parameter import is_rotation_name, random_rotation
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.site_form import W8A8
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.migration.choices import FACTORS, ROTATIONS, Choices
from ascendfx.quant_passes.migration.migrate_outliers import MigrateOutliers
from ascendfx.quant_passes.migration.transform_name import is_transform_name
from tests.quant.insertion.bundled_program import raised_program, texts, weights

ROUNDING = 60 * 512 * 2.0**-53
"""Of the largest logit; see above."""
RULES_THAT_FIRE = 29
EACH = [
    Choices(stream="factors"),
    Choices(latent="factors"),
    Choices(values="factors"),
    Choices(up="factors"),
    Choices(stream="rotation"),
    Choices(latent="rotation"),
    Choices(values="rotation"),
]

Tensors = Mapping[str, NDArray[np.float64]]


@cache
def ids() -> NDArray[np.int64]:
    return texts(1, 6)[:1]


def migrated(choices: Choices) -> Program:
    return MigrateOutliers(choices).run(raised_program()).program


def transforms(program: Program, *, identity: bool = False) -> Tensors:
    """Return factors over six binades and rotations by chance, or those that change nothing."""
    random = np.random.default_rng(0)
    found: dict[str, NDArray[np.float64]] = {}
    for name, kind in checkpoint_types(program).items():
        shape = tuple(int(each) for each in kind.shape)  # pyright: ignore[reportArgumentType]
        if is_rotation_name(name):
            found[name] = np.eye(shape[0]) if identity else random_rotation(random, shape[0])
        elif is_transform_name(name):
            found[name] = np.ones(shape) if identity else 2.0 ** random.uniform(-3, 3, shape)
    return found


def logits(program: Program, given: Tensors) -> NDArray[np.float64]:
    source = LayeredSource((ArraySource(given), weights()))
    return interpret(program, TensorsByKey(source, {"token_ids": ids()}))[0]


@cache
def truth() -> NDArray[np.float64]:
    return logits(raised_program(), {})


@pytest.mark.parametrize("choices", [FACTORS, ROTATIONS], ids=["factors", "rotations"])
def test_a_migrated_model_computes_what_it_did(choices: Choices) -> None:
    check_same(choices)


@pytest.mark.nightly
@pytest.mark.parametrize("choices", EACH, ids=str)
def test_one_kind_of_place_alone_changes_nothing(choices: Choices) -> None:
    check_same(choices)


def check_same(choices: Choices) -> None:
    program = migrated(choices)
    given = transforms(program)
    assert given
    found = logits(program, given)
    assert np.abs(found - truth()).max() <= ROUNDING * np.abs(truth()).max()


def test_without_its_factors_a_model_computes_something_else() -> None:
    program = migrated(FACTORS)
    given = dict(transforms(program, identity=True))
    name = next(iter(given))
    given[name] = given[name].copy()
    given[name][0] = 2.0
    assert np.abs(logits(program, given) - truth()).max() <= ROUNDING * np.abs(truth()).max()
    for key in ("model.layers.0.input_layernorm.weight", "model.layers.1.mlp.experts.down_proj"):
        assert f"{key}#factors" in given


def test_factors_of_one_change_no_bit() -> None:
    program = migrated(FACTORS)
    assert np.array_equal(logits(program, transforms(program, identity=True)), truth())


def test_a_quantized_model_with_factors_of_one_is_the_quantized_model() -> None:
    plain = InsertQuantization(W8A8).run(raised_program()).program
    program = InsertQuantization(W8A8).run(migrated(FACTORS)).program
    assert np.array_equal(logits(program, transforms(program, identity=True)), logits(plain, {}))


@pytest.mark.parametrize("choices", [FACTORS, ROTATIONS], ids=["factors", "rotations"])
def test_nothing_of_a_transform_stays_in_the_step(choices: Choices) -> None:
    program = migrated(choices)
    before = raised_program()
    for graph, old in zip(program.graphs, before.graphs, strict=True):
        assert not any(map(is_transform_name, param_names(graph)))
        products = [sum(type(n.op).__name__ == "Linear" for n in g.nodes) for g in (graph, old)]
        assert products[0] == products[1]
    keys, old_keys = ({site.key for site in sites_of(each)} for each in (program, before))
    assert keys == old_keys
    assert program.recipes.keys() > before.recipes.keys()


def test_every_rule_is_needed_for_the_bundled_model() -> None:
    fired = {
        name.removeprefix("rule ")
        for choices in (FACTORS, ROTATIONS)
        for name in MigrateOutliers(choices).run(raised_program()).statistics
        if name.startswith("rule ")
    }
    assert len(fired) == RULES_THAT_FIRE, sorted(fired)


def test_the_router_is_changed_as_a_whole_and_in_f32() -> None:
    for choices in (FACTORS, ROTATIONS):
        program = migrated(choices)
        (layer,) = (
            g for g in program.graphs if any("mlp.gate.weight" in n for n in param_names(g))
        )
        (name,) = (n for n in param_names(layer) if "mlp.gate.weight" in n)
        (kind,) = {n.op.type for n in layer.nodes if isinstance(n.op, Param) and n.op.name == name}
        assert name == "mlp.gate.weight#migrated"
        assert kind.dtype.value == "f32"
        recipe = program.recipes[layer.name, name]
        assert {each.dtype.value for each in recipe.output_types} == {"f32"}
        assert "mlp.gate.e_score_correction_bias" in param_names(layer)


def test_rows_of_the_rotary_part_stay() -> None:
    program = migrated(Choices(latent="rotation"))
    layer = program.graphs[1]
    name = "self_attn.kv_a_proj_with_mqa.weight"
    recipe = program.recipes[layer.name, f"{name}#migrated"]
    given = transforms(program)
    key = f"model.layers.0.{name}"
    norm = "model.layers.0.self_attn.kv_a_layernorm.weight#rotation"
    tensors = {
        name: weights().load(key),
        "self_attn.kv_a_layernorm.weight#rotation": given[norm],
    }
    made = interpret(recipe, tensors)[0]
    before = tensors[name].astype(np.float64)
    assert np.array_equal(made[64:], before[64:])
    assert not np.allclose(made[:64], before[:64])
