"""Only what depends on a change is computed again, and it is what a whole run computes."""

from functools import cache

import numpy as np
import pytest

from ascendfx.ir.op import Array
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.quant_passes.checkpoint.saved_weight import StaticInputs
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.mixed_precision.fake_inputs import fake_inputs
from ascendfx.quant_passes.mixed_precision.measure_units import seen_units
from ascendfx.quant_passes.mixed_precision.reference_run import Changes, ReferenceRun
from tests.benchmarks.parts.fake_quantized import FakeQuantized
from tests.passes.captured_models import raised
from tests.quant.mixed_precision.small_model import (
    INT8,
    KEEP,
    MODEL,
    source,
    units,
    weights,
    windows,
)


@cache
def run() -> ReferenceRun:
    return ReferenceRun(raised(MODEL), source(), windows())


def logits(changed: dict[str, Array], inputs: dict[str, object]) -> Array:
    def read(key: str, x: Array) -> Array:
        return fake_inputs(x, "dynamic") if key in inputs else x

    run = FakeQuantized(raised(MODEL), {**weights(), **changed}, read, windows())
    return run.logits().astype(np.float64)


def kl(own: Array) -> float:
    def log_probabilities(values: Array) -> Array:
        return values - np.logaddexp.reduce(values, axis=-1, keepdims=True)

    true = log_probabilities(logits({}, {}))
    return float((np.exp(true) * (true - log_probabilities(own))).sum(-1).mean())


KEYS = [site.key for site in sites_of(raised(MODEL))]


@pytest.mark.parametrize("key", KEYS[:: max(1, len(KEYS) // 8)])
def test_a_change_is_what_a_whole_run_makes_of_it(key: str) -> None:
    changed = {key: weights()[key] * np.float32(1.25)}
    forms = ("dynamic",) * (len(weights()[key]) if weights()[key].ndim == 3 else 1)
    found = run().divergence(Changes(changed, {key: forms}))
    assert found == pytest.approx(kl(logits(changed, {key: True})), rel=1e-9, abs=1e-12)
    assert found > 0
    assert run().divergence(Changes()) == 0  # and leaves nothing behind


def test_weights_are_read_once() -> None:
    read: list[str] = []

    class Counting(ArraySource):
        def load(self, key: str) -> Array:
            read.append(key)
            return super().load(key)

    made = ReferenceRun(raised(MODEL), Counting(weights()), windows())
    key = KEYS[-1]
    made.divergence(Changes({key: weights()[key]}))
    assert len(read) == len(set(read))


def test_static_inputs_have_codes_of_eight_bits() -> None:
    x = np.array([-4.0, -0.25, 0.0, 0.24, 1.0], np.float32)
    found = fake_inputs(x, StaticInputs(0.5, zero=-126))
    np.testing.assert_array_equal(found, [-1.0, 0, 0, 0, 1.0])  # code -128 is the lowest


def test_experts_may_read_inputs_in_forms_of_their_own() -> None:
    key = next(key for key in KEYS if weights()[key].ndim == 3)
    unit = next(unit for unit in units(KEEP, INT8) if unit.sites == (key,))
    (seen,) = seen_units([unit], raised(MODEL), source(), windows(), keep=True)
    for piece in unit.pieces:
        forms = tuple("dynamic" if e == piece.expert else None for e in range(piece.experts))
        known = seen.inputs(piece)
        assert known is not None
        assert (run().divergence(Changes({}, {key: forms})) != 0) == (known.tokens > 0)
