"""Weights made on the way see what those before them have become."""

import errno
import os
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.passes.random_weights import random_weights
from ascendfx.quant_passes.calibration import layer_walk, row_store
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.packed_parameters import parts_of
from ascendfx.runtime.quantize.calibrated_model import CalibratedModel
from tests.passes.captured_models import raised

MODEL = "v3yarn_f32"
RECIPE = """
sites:
  - {match: "*.kv_b_proj.weight", keep: true}
  - {match: "*.experts.1.*", weight: int4, algorithm: gptq, options: {tokens_per_input: 0.1}}
  - {match: ["*_proj.weight", "*.kv_a_proj_with_mqa.weight"], weight: int4, activation: static}
calibration: {texts: [none.txt], inputs: %s}
"""


@cache
def weights() -> dict[str, Array]:
    found = random_weights(raised(MODEL), 3)
    return {key: array.astype(np.float32) for key, array in found.items()}


@cache
def windows() -> NDArray[np.int64]:
    rows = len(weights()["model.embed_tokens.weight"])
    return np.random.default_rng(5).integers(0, rows, (5, 7))


def model(inputs: str, own: dict[str, Array] | None = None) -> CalibratedModel:
    source = ArraySource(own or weights())
    return CalibratedModel(raised(MODEL), source, windows(), recipe_of(RECIPE % inputs))


def names() -> list[str]:
    found: list[str] = []
    for site in sites_of(raised(MODEL)):
        found += [
            name for parts in parts_of(site.key, site.experts) or ((site.key,),) for name in parts
        ]
    return sorted(found, key=lambda name: int(name.split(".")[2]) if ".layers." in name else 99)


def last() -> str:
    recipe = recipe_of(RECIPE % "quantized")
    return next(name for name in reversed(names()) if recipe.policy_of(name))


def test_weights_see_what_those_before_have_become() -> None:
    """A plain run over the quantized weights sees the same, weight by weight."""
    run = model("quantized")
    made = {name: (run.made(name), run.statistics(name)) for name in names()}
    recipe = recipe_of(RECIPE % "quantized")
    assert {name for name, (weight, _) in made.items() if weight} == {
        name for name in names() if recipe.policy_of(name)
    }
    replaced = dict(weights())
    for site in sites_of(raised(MODEL)):
        whole = np.array(weights()[site.key])
        stacked = whole.reshape(site.experts, *whole.shape[-2:])
        for expert, parts in enumerate(parts_of(site.key, site.experts) or ((site.key,),)):
            for name, part in zip(parts, np.split(stacked[expert], len(parts)), strict=True):
                weight = made[name][0]
                part[...] = part if weight is None else weight.tensor.decode()
        replaced[site.key] = whole
    plain, unlike = model("original", replaced), model("original")
    differ = 0
    for name in names():
        inputs, true, other = made[name][1], plain.statistics(name), unlike.statistics(name)
        if inputs is None or true is None or other is None:
            continue
        assert inputs.tokens == true.tokens
        np.testing.assert_allclose(inputs.absmax, true.absmax, rtol=1e-4, atol=1e-5)
        differ += not np.allclose(inputs.absmax, other.absmax, rtol=1e-2)
    assert differ > len(names()) / 2


def test_what_was_made_is_the_same_again_and_from_anywhere() -> None:
    """A run that is gone on with asks for later weights only."""
    key = next(
        name for name in reversed(names()) if recipe_of(RECIPE % "quantized").policy_of(name)
    )
    whole = model("quantized")
    all_made = [whole.made(name) for name in names()]
    later = model("quantized").made(key)
    first = all_made[names().index(key)]
    assert first is not None
    assert later is not None
    assert isinstance(first.tensor, QuantizedTensor)
    assert isinstance(later.tensor, QuantizedTensor)
    np.testing.assert_array_equal(first.tensor.codes, later.tensor.codes)


def test_a_plain_run_makes_nothing() -> None:
    run = model("original")
    assert all(run.made(name) is None for name in names())


def test_a_layer_that_has_passed_is_gone() -> None:
    run = model("quantized")
    run.made(last())
    with pytest.raises(AssertionError, match="after its layer had passed"):
        run.made(names()[0])


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_place(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(row_store, "TemporaryFile", no_place)
    monkeypatch.setattr(layer_walk, "RowStore", lambda: row_store.RowStore(0))
    with pytest.raises(GraphError, match="disk-full"):
        model("quantized").made(last())
