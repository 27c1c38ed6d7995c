"""A small DeepSeek with random weights, its matrices as units, and texts of random tokens."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.op import Array
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.passes.random_weights import random_weights
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.mixed_precision.unit import Piece, Unit
from ascendfx.quant_passes.mixed_precision.units_of import units_of
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Recipe
from ascendfx.runtime.quantize.pieces_of import pieces_of
from tests.passes.captured_models import raised

MODEL = "v3yarn_f32"
KEEP = Recipe("keep", ())
KEPT = '- {match: ["*.kv_b_proj.weight", "*.mlp.gate.weight", "*lm_head.weight"], keep: true}'


def everywhere(name: str, form: str) -> Recipe:
    """Return a recipe that gives all projections one form."""
    return recipe_of(f'sites:\n  {KEPT}\n  - {{match: "*", {form}}}\n', file=name)


INT8 = everywhere("int8", "weight: int8, activation: dynamic")
INT4 = everywhere("int4", "weight: int4, activation: dynamic")


@cache
def weights() -> dict[str, Array]:
    found = random_weights(raised(MODEL), 3)
    return {key: array.astype(np.float32) for key, array in found.items()}


def source() -> ArraySource:
    return ArraySource(weights())


@cache
def windows() -> NDArray[np.int64]:
    rows = len(weights()["model.embed_tokens.weight"])
    return np.random.default_rng(5).integers(0, rows, (5, 7))


@cache
def pieces() -> tuple[Piece, ...]:
    """Return all matrices; experts under the names that a checkpoint has for them."""
    stored = {name for site in sites_of(raised(MODEL)) for name in (site.key,)}
    stored |= {
        name for key in stored if ".experts." in key for name in _names(key, len(weights()[key]))
    }
    return tuple(pieces_of(raised(MODEL), stored))


def _names(key: str, experts: int) -> Sequence[str]:
    head, _, last = key.rpartition(".")
    parts = ("gate_proj", "up_proj") if last == "gate_up_proj" else ("down_proj",)
    return [f"{head}.{number}.{part}.weight" for number in range(experts) for part in parts]


def units(*recipes: Recipe, by_expert: bool = False) -> tuple[Unit, ...]:
    return units_of(pieces(), recipes or (KEEP, INT8, INT4), by_expert=by_expert)
