"""Algorithms that learn: derivatives against differences, and nothing worse than a start."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.activation_clipping import (
    ActivationClipping,
    learned_activation_clipping,
)
from ascendfx.quant_passes.algorithms.adam import adam
from ascendfx.quant_passes.algorithms.clipping import (
    Clipping,
    clipped_affine,
    ends_of,
    scale_by_end,
    slope_of,
)
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.learned_clipping import LearnedClipping
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.output_error import output_squared_errors
from ascendfx.quant_passes.algorithms.ssz import Ssz
from ascendfx.quant_passes.algorithms.sszw import Sszw
from ascendfx.quant_passes.algorithms.straight_through import rounded
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm, WeightSpec
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.formats.normal_float4 import NF4
from ascendfx.quant_passes.scaling.granularity import PerBlock, PerChannel, PerGroup, PerTensor
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import DYNAMIC, FULL_RANGE, ScaleRule
from ascendfx.quant_passes.statistics import InputStatistics, statistics_of, without_tokens
from tests.quant.algorithms.layers import layer
from tests.quant.reference_vectors import vectors

MADE = layer(5, heavy=True, out=12, width=32, tokens=128)
W = MADE.weight
ASYMMETRIC = ScaleRule(symmetric=False)
SPECS = [
    WeightSpec(Integer(4), PerChannel()),
    WeightSpec(Integer(3), PerGroup(16), ASYMMETRIC),
    WeightSpec(Integer(4, signed=False), PerGroup(16), FULL_RANGE),
    WeightSpec(Integer(3), PerGroup(16), replace(ASYMMETRIC, round_zero=False, zero_first=True)),
    WeightSpec(Integer(4), PerChannel(), replace(ASYMMETRIC, stored=DType.BF16)),
]


def errors(
    algorithm: WeightAlgorithm, spec: WeightSpec, known: InputStatistics = MADE.known
) -> Any:
    decoded = algorithm.quantize(W, spec, known).tensor.decode(DType.F64)
    assert MADE.known.moments is not None
    return output_squared_errors(decoded - W, MADE.known.moments)


@pytest.mark.parametrize("spec", SPECS)
def test_sszw_is_better_than_all_its_starts_in_each_row(spec: WeightSpec) -> None:
    found = errors(Sszw(steps=60), spec)
    for start in (Ssz(), MIN_MAX):
        assert (found <= errors(start, spec) * (1 + 1e-9)).all()
    assert found.sum() < 0.6 * errors(Ssz(), spec).sum()
    with_gptq = errors(Sszw(steps=60, starts=(Ssz(), MIN_MAX, Gptq())), spec)
    assert (with_gptq <= errors(Gptq(), spec) * (1 + 1e-9)).all()


@pytest.mark.parametrize("power", [-40, 30])
@pytest.mark.parametrize("algorithm", [Sszw(steps=20), LearnedClipping(steps=20)])
def test_the_size_of_weights_and_inputs_changes_no_code(
    algorithm: WeightAlgorithm, power: int
) -> None:
    """Adam adds 1e-8 to gradients, which would stop it for small ones."""
    known = statistics_of(MADE.held_out * 2.0**power)
    for spec in SPECS[:2]:
        usual = algorithm.quantize(W, spec, statistics_of(MADE.held_out)).tensor
        moved = algorithm.quantize(W * 2.0**power, spec, known).tensor
        assert isinstance(usual, QuantizedTensor)
        assert isinstance(moved, QuantizedTensor)
        np.testing.assert_array_equal(moved.codes, usual.codes)
        np.testing.assert_array_equal(
            moved.affine.scale, usual.affine.scale * np.float32(2.0**power)
        )


@pytest.mark.parametrize("spec", SPECS)
def test_scales_and_codes_of_sszw_are_stored_ones(spec: WeightSpec) -> None:
    tensor = Sszw(steps=150).quantize(W, spec, MADE.known).tensor
    assert isinstance(tensor, QuantizedTensor)
    steps = W / tensor.affine.granularity.spread(tensor.affine.scale, W.shape)
    if tensor.affine.zero is not None:
        steps = steps + tensor.affine.granularity.spread(tensor.affine.zero, W.shape)
    form = tensor.format
    assert isinstance(form, Integer)
    inside = (tensor.codes > form.low) & (tensor.codes < form.high)
    # Rounding moves a weight by half a step, its offset by another half.
    assert np.abs(tensor.codes - steps)[inside].max() <= 1 + 1e-5
    assert tensor.codes.dtype == spec.format.codes
    stored = spec.rule.stored.numpy
    np.testing.assert_array_equal(
        tensor.affine.scale, tensor.affine.scale.astype(stored).astype(np.float32)
    )
    if tensor.affine.zero is not None and spec.rule.round_zero:
        np.testing.assert_array_equal(tensor.affine.zero, np.rint(tensor.affine.zero))
    if spec.rule.symmetric and tensor.affine.zero is not None:
        np.testing.assert_array_equal(tensor.affine.zero, 8)


def test_sszw_does_what_our_stand_in_promised() -> None:
    """0.00578 was the mean square of the stand-in on the reference weight, GPTQ has 0.00782."""
    weight, x = vectors("round_to_nearest")["W"], vectors("weight_algorithms")["X"]
    spec = WeightSpec(Integer(4), PerChannel())
    decoded = Sszw().quantize(weight, spec, statistics_of(x)).tensor.decode()
    assert np.square(x @ (decoded - weight).T).mean() < 0.0040
    # With zero points that go the wrong way it is 0.0055.
    spec = WeightSpec(Integer(3), PerGroup(32), replace(FULL_RANGE, symmetric=False))
    decoded = Sszw().quantize(weight, spec, statistics_of(x)).tensor.decode()
    assert np.square(x @ (decoded - weight).T).mean() < 0.0050


def test_no_steps_are_the_best_start() -> None:
    spec = SPECS[0]
    best = np.minimum(errors(Ssz(), spec), errors(MIN_MAX, spec))
    np.testing.assert_allclose(errors(Sszw(steps=0), spec), best, rtol=1e-12)


def test_rows_of_sszw_do_not_depend_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Sszw(steps=20).quantize(W, SPECS[1], MADE.known).tensor.decode()
    monkeypatch.setattr("ascendfx.quant_passes.algorithms.sszw._ROWS", 5)
    parts = Sszw(steps=20).quantize(W, SPECS[1], MADE.known).tensor.decode()
    assert MADE.calibration_error(parts) == pytest.approx(MADE.calibration_error(whole), rel=0.05)
    assert (np.abs(parts - whole).max(axis=1) == 0).mean() > 0.5  # products round otherwise


def test_few_tokens_and_scales_of_many_rows() -> None:
    few = statistics_of(MADE.held_out[:7])
    found = Sszw().quantize(W, SPECS[0], few)
    assert str(found.remarks[0]) == "sszw: 7 tokens are fewer than 8; ssz took over"
    np.testing.assert_array_equal(
        found.tensor.decode(), Ssz().quantize(W, SPECS[0]).tensor.decode()
    )
    for algorithm in (Sszw(), LearnedClipping()):
        for shared in (PerTensor(), PerBlock(4, 16)):
            with pytest.raises(GraphError, match="treats rows one by one") as refused:
                algorithm.quantize(W, WeightSpec(Integer(4), shared), MADE.known)
            assert refused.value.code == "bad-granularity"
        with pytest.raises(GraphError, match="integer codes") as refused:
            algorithm.quantize(W, WeightSpec(NF4, PerChannel()), MADE.known)
        assert refused.value.code == "bad-format"


def test_derivatives_of_rounding_are_differences_between_jumps() -> None:
    """Between jumps of codes numbers move with scales by ``code - zero``.

    The rest is the estimator: a code inside counts as moving with its ratio.
    """
    random = np.random.default_rng(0)
    weights, zero, form = random.standard_normal((4, 9)), np.full((4, 1), 3.0), Integer(3)
    scale = np.full((4, 1), 0.31)
    made = rounded(weights, scale, zero, form)
    small = 1e-7
    moved = rounded(weights, scale + small, zero, form)
    same = moved.codes == made.codes
    assert same.mean() > 0.9
    slope = (moved.decoded - made.decoded) / small
    expected = made.by_scale + np.where(made.inside, weights / scale, 0)
    np.testing.assert_allclose(slope[same], expected[same], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_derivatives_of_clipped_scales_are_differences(spec: WeightSpec) -> None:
    exact = WeightSpec(
        spec.format, spec.granularity, replace(spec.rule, stored=DType.F64, compute=DType.F64)
    )
    shape = spec.granularity.scale_shape(W.shape)
    random = np.random.default_rng(1)
    here = Clipping(random.normal(2, 0.5, shape), random.normal(2, 0.5, shape))
    form, small = exact.format, 1e-6
    assert isinstance(form, Integer)
    by_end, ends = scale_by_end(exact, form, here, ends_of(W, exact)), ends_of(W, exact)
    for end, moved in enumerate(
        (replace(here, low=here.low + small), replace(here, high=here.high + small))
    ):
        logit = (here.low, here.high)[end]
        before, after = (clipped_affine(W, exact, each).scale for each in (here, moved))
        slope = (after - before).astype(np.float64) / small
        np.testing.assert_allclose(
            slope, by_end[end] * ends[end] * slope_of(logit), rtol=1e-4, atol=1e-9
        )


@pytest.mark.parametrize("spec", SPECS)
def test_learned_clipping_keeps_the_best_and_starts_at_clipping(spec: WeightSpec) -> None:
    found = errors(LearnedClipping(steps=60), spec)
    assert (found <= errors(MIN_MAX, spec) * (1 + 1e-6)).all()
    assert found.sum() < errors(MIN_MAX, spec).sum()
    started = LearnedClipping(steps=0, keep_best=False).quantize(W, spec, MADE.known).tensor
    usual = MIN_MAX.quantize(W, spec).tensor
    assert isinstance(started, QuantizedTensor)
    assert isinstance(usual, QuantizedTensor)
    np.testing.assert_allclose(
        started.affine.scale, usual.affine.scale / (1 + np.exp(-4)), rtol=2**-7
    )
    found = LearnedClipping().quantize(W, spec, without_tokens(32))
    assert str(found.remarks[0]) == "learned_clipping: no tokens; min_max took over"


@pytest.mark.parametrize("spec", SPECS)
def test_more_steps_of_learned_clipping_never_make_a_row_worse(spec: WeightSpec) -> None:
    seen = [errors(LearnedClipping(steps=steps, rate=0.3), spec) for steps in range(0, 24, 4)]
    for before, after in pairwise(seen):
        assert (after <= before * (1 + 1e-5)).all()


def test_clamping_first_is_the_same_as_clipping_the_range() -> None:
    """Huawei's LWC clamps the weight and quantizes that."""
    spec = WeightSpec(Integer(4), PerChannel(), replace(ASYMMETRIC, include_zero=False))
    logits = Clipping(np.full((12, 1), 1.3), np.full((12, 1), 0.4))
    affine = clipped_affine(W, spec, logits)
    low, high = (1 / (1 + np.exp(-each)) for each in (1.3, 0.4))
    clamped = np.clip(W, low * W.min(1, keepdims=True), high * W.max(1, keepdims=True))
    other = MIN_MAX.quantize(clamped, spec).tensor
    assert isinstance(other, QuantizedTensor)
    np.testing.assert_allclose(affine.scale, other.affine.scale, rtol=1e-6)
    np.testing.assert_array_equal(affine.quantize(W, spec.format), other.codes)


@pytest.mark.parametrize("rule", [DYNAMIC, replace(DYNAMIC, symmetric=False)])
@pytest.mark.parametrize("bits", [3, 4, 8])
def test_clipping_of_activations_is_never_worse_than_none(bits: int, rule: ScaleRule) -> None:
    form, x = Integer(bits), np.random.default_rng(0).standard_normal((64, 32))

    def error(clipping: ActivationClipping) -> float:
        return float(np.square((clipping.quantize(x).decode() - x) @ W.T).mean())

    found = learned_activation_clipping(x, W, form=form, rule=rule, steps=150, rate=0.03)
    assert 0 < found.low <= 1
    assert 0 < found.high <= 1
    none = error(ActivationClipping(1.0, 1.0, form, rule))
    assert error(found) <= none * (1 + 1e-6)
    if bits == 3:
        assert found.high < 1
        assert error(found) < none


def test_activations_that_are_hard() -> None:
    assert learned_activation_clipping(np.zeros((0, 32)), W) == ActivationClipping(1.0, 1.0)
    one = learned_activation_clipping(MADE.held_out[:1], W, steps=3)
    assert np.isfinite(one.quantize(MADE.held_out[:1]).decode()).all()
    positive = ActivationClipping(1.0, 1.0, Integer(8), replace(DYNAMIC, symmetric=False))
    assert (positive.affine(np.full((2, 4), 5.0)).scale == np.float32(5 / 255)).all()
    with pytest.raises(GraphError) as refused:
        learned_activation_clipping(np.full((2, 32), np.nan), W)
    assert refused.value.code == "values-not-finite"


def test_adam_against_its_first_steps() -> None:
    state = adam(np.zeros(2)).after(np.array([3.0, -0.5]))
    np.testing.assert_allclose(state.direction(), [1, -1], rtol=1e-7)
    state = state.after(np.array([0.0, 0.0]))
    mean, square = 0.09 / 0.19, 0.000999 / (1 - 0.999**2)
    np.testing.assert_allclose(state.direction()[0], mean * 3 / (3 * np.sqrt(square)), rtol=1e-6)
