"""Algorithms that look at the weight only: what each of them minimizes, and hard rows."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.hqq import Hqq
from ascendfx.quant_passes.algorithms.mean_square import MeanSquare
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.percentile import Percentile
from ascendfx.quant_passes.algorithms.progressive_tensor import ProgressiveTensor
from ascendfx.quant_passes.algorithms.qserve import LIMIT, Qserve
from ascendfx.quant_passes.algorithms.ssz import MSMODELSLIM_SSZ, OPTIQUANT_SSZ, Ssz
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm, WeightSpec
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import (
    Granularity,
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
)
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import MSMODELSLIM, OPTIQUANT, ScaleRule
from ascendfx.quant_passes.statistics import statistics_of, without_tokens
from tests.quant.algorithms.layers import layer

MADE = layer(3, heavy=True, out=16, width=64, tokens=128)
W = MADE.weight
GRANULARITIES = [PerTensor(), PerChannel(), PerGroup(16), PerBlock(6, 24)]
ASYMMETRIC = ScaleRule(symmetric=False)


def plain(algorithm: WeightAlgorithm, spec: WeightSpec, weight: Any = W) -> QuantizedTensor:
    tensor = algorithm.quantize(weight, spec, MADE.known).tensor
    assert isinstance(tensor, QuantizedTensor)
    return tensor


def by_scale(tensor: QuantizedTensor, norm: float, weight: Any = W) -> Any:
    off = np.abs(tensor.decode() - weight) ** norm
    return tensor.affine.granularity.reduce(off, np.add)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("rule", [ScaleRule(), ASYMMETRIC], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_no_scale_gets_worse_than_min_max(
    bits: int, rule: ScaleRule, granularity: Granularity
) -> None:
    spec = WeightSpec(Integer(bits), granularity, rule)
    usual = plain(MIN_MAX, spec)
    for algorithm, norm in ((MeanSquare(grid=20), 2.0), (MeanSquare(2.4, 20), 2.4), (Ssz(), 2.0)):
        errors = by_scale(plain(algorithm, spec), norm)
        assert (errors <= by_scale(usual, norm) * (1 + 1e-6)).all()
    assert plain(MeanSquare(grid=20), spec).squared_error(W) < usual.squared_error(W) or bits == 8


def test_the_grid_keeps_the_best_of_all_it_tries() -> None:
    spec = WeightSpec(Integer(3), PerChannel())
    tried = [
        by_scale(plain(MIN_MAX, WeightSpec(Integer(3), PerChannel(), ScaleRule(reach=3 / part))), 2)
        for part in 1 - np.arange(40) / 50
    ]
    found = by_scale(plain(MeanSquare(grid=50), spec), 2)
    np.testing.assert_allclose(found, np.min(tried, axis=0), rtol=1e-5)


def test_mean_square_takes_formats_without_zero_points() -> None:
    spec = WeightSpec(E4M3FN(), PerChannel())
    usual = plain(MIN_MAX, spec).squared_error(W)
    assert plain(MeanSquare(), spec).squared_error(W) < usual


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_percentile_saturates_what_is_beyond(granularity: Granularity) -> None:
    spec = WeightSpec(Integer(8), granularity, ASYMMETRIC)
    np.testing.assert_array_equal(plain(Percentile(100), spec).codes, plain(MIN_MAX, spec).codes)
    weight = W.copy()
    weight[5, 3] = 1000
    found, usual = (
        np.abs(plain(each, WeightSpec(Integer(4), granularity), weight).decode() - weight)
        for each in (Percentile(80), MIN_MAX)
    )
    assert found[5, 3] > 990
    near = np.delete(np.arange(16), 3)
    assert found[5, near].mean() < 0.7 * usual[5, near].mean()


def test_the_range_of_percentile_is_that_of_quantiles() -> None:
    tensor = plain(Percentile(90), WeightSpec(Integer(4), PerChannel(), ASYMMETRIC))
    low, high = np.percentile(W, (5, 95), axis=1)
    np.testing.assert_allclose(tensor.affine.scale[:, 0], (high - low) / 15, rtol=1e-6)


def test_percentile_of_rows_that_are_almost_all_zero() -> None:
    weight = np.zeros((2, 1000))
    weight[0, 7] = 3
    found = plain(Percentile(99), WeightSpec(Integer(8), PerChannel()), weight).decode()
    np.testing.assert_allclose(found, weight, rtol=1e-6)


@pytest.mark.parametrize("power", [-40, -13, 0, 13])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("rule", [ScaleRule(), ASYMMETRIC], ids=["symmetric", "asymmetric"])
def test_the_size_of_weights_changes_no_code_of_ssz(bits: int, rule: ScaleRule, power: int) -> None:
    spec = WeightSpec(Integer(bits), PerChannel(), rule)
    first, second = plain(Ssz(), spec), plain(Ssz(), spec, W * 2.0**power)
    np.testing.assert_array_equal(second.codes, first.codes)
    np.testing.assert_array_equal(second.affine.scale, first.affine.scale * np.float32(2.0**power))
    assert first.squared_error(W) < plain(MIN_MAX, spec).squared_error(W)


def test_both_references_do_nothing_to_small_weights_at_eight_bits() -> None:
    for algorithm, rule in ((MSMODELSLIM_SSZ, MSMODELSLIM), (OPTIQUANT_SSZ, OPTIQUANT)):
        spec = WeightSpec(Integer(8, narrow=rule is OPTIQUANT), PerChannel(), rule)
        small = W * 0.1
        np.testing.assert_array_equal(
            plain(algorithm, spec, small).codes, plain(MIN_MAX, spec, small).codes
        )


@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_that_break_optiquant(symmetric: bool) -> None:  # noqa: FBT001
    """There, a row of zeros has the scale 0 and becomes NaN; a row of one number is kept."""
    weight = np.stack([np.zeros(64), np.full(64, 0.3)]).astype(np.float32)
    rule = replace(OPTIQUANT, symmetric=symmetric)
    spec = WeightSpec(Integer(4, narrow=symmetric), PerChannel(), rule)
    decoded = plain(OPTIQUANT_SSZ, spec, weight).decode()
    np.testing.assert_array_equal(decoded[0], 0)
    np.testing.assert_allclose(decoded[1], 0.3, rtol=2**-22)


def test_ssz_of_a_row_does_not_depend_on_other_rows() -> None:
    spec = WeightSpec(Integer(4), PerGroup(16), ASYMMETRIC)
    whole, part = plain(Ssz(), spec), plain(Ssz(), spec, W[3:7])
    np.testing.assert_array_equal(whole.codes[3:7], part.codes)
    np.testing.assert_array_equal(whole.affine.scale[3:7], part.affine.scale)
    many = np.random.default_rng(0).standard_normal((200, 64))
    spec = WeightSpec(Integer(3), PerChannel(), ASYMMETRIC)
    alone = [plain(Ssz(), spec, many[row : row + 1]).affine.scale[0, 0] for row in range(200)]
    np.testing.assert_array_equal(plain(Ssz(), spec, many).affine.scale[:, 0], alone)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("algorithm", [Ssz(), Ssz(weighted=True), Hqq(), MeanSquare(grid=9)])
def test_parts_of_rows_are_put_together(
    algorithm: WeightAlgorithm, granularity: Granularity, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = WeightSpec(Integer(3), granularity, ASYMMETRIC)
    whole = plain(algorithm, spec)
    monkeypatch.setattr("ascendfx.quant_passes.algorithms.row_parts._VALUES", 200)
    parts = plain(algorithm, spec)
    np.testing.assert_array_equal(parts.codes, whole.codes)
    np.testing.assert_array_equal(parts.affine.scale, whole.affine.scale)
    np.testing.assert_array_equal(parts.affine.zero, whole.affine.zero)


def test_weighted_ssz_looks_at_the_inputs() -> None:
    spec = WeightSpec(Integer(4), PerChannel())
    squares = np.diagonal(MADE.known.moments) if MADE.known.moments is not None else W
    plainly, weighted = (
        (squares * np.square(plain(each, spec).decode() - W)).sum()
        for each in (Ssz(), Ssz(weighted=True))
    )
    assert weighted < 0.8 * plainly
    found = Ssz(weighted=True).quantize(W, spec, without_tokens(64))
    assert "no tokens, so all weights count alike" in str(found.remarks[0])
    np.testing.assert_array_equal(found.tensor.decode(), plain(Ssz(), spec).decode())


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
def test_hqq_never_has_a_larger_mean_error_than_its_start(bits: int, axis: Any) -> None:
    spec = WeightSpec(Integer(bits), PerGroup(16))
    start, found = (
        np.abs(Hqq(axis=axis, steps=steps).quantize(W, spec).tensor.decode() - W).mean()
        for steps in (0, 20)
    )
    assert found < start


def test_more_steps_of_hqq_never_make_a_group_worse() -> None:
    spec = WeightSpec(Integer(2), PerGroup(16), ASYMMETRIC)
    errors = [by_scale(plain(Hqq(steps=steps), spec), 1) for steps in range(12)]
    for before, after in pairwise(errors):
        assert (after <= before * (1 + 1e-6)).all()
    assert (errors[11] < errors[0]).mean() > 0.5


def test_hqq_against_its_formula_on_weights_that_are_not_small() -> None:
    """Only errors above 0.17 survive the shrinking: 0.17 ** -0.3 / 10 is 0.17."""
    weight = 20 * W
    form, low, high = (
        Integer(2),
        *(each(weight, axis=1, keepdims=True) for each in (np.min, np.max)),
    )
    ratio, beta = 3 / (high - low), 10.0
    zero = -2 - low * ratio
    for _ in range(7):
        codes = np.clip(np.rint(weight * ratio + zero), form.low, form.high)
        off = weight - (codes - zero) / ratio
        size = np.maximum(np.abs(off), 1e-9)
        kept = np.sign(off) * np.maximum(size - size**-0.3 / beta, 0)
        zero = (codes - (weight - kept) * ratio).mean(axis=1, keepdims=True)
        beta *= 1.05
    algorithm = Hqq(steps=7, kappa=1.05, legacy=True)
    tensor = plain(algorithm, WeightSpec(form, PerChannel()), weight)
    np.testing.assert_allclose(tensor.affine.zero, zero, rtol=1e-5)


def test_hqq_of_small_weights() -> None:
    """The package gives ranges below 1e-4 the scale 1, which loses them."""
    spec, small = WeightSpec(Integer(4), PerGroup(16)), W * 1e-5
    lost = Hqq(legacy=True).quantize(small, spec).tensor.squared_error(small)
    kept = Hqq().quantize(small, spec).tensor.squared_error(small)
    assert kept < 0.01 * np.square(small).sum() < 0.1 * lost * 100


def test_axis_0_needs_groups() -> None:
    with pytest.raises(GraphError, match="hqq across rows needs groups"):
        Hqq(axis=0).quantize(W, WeightSpec(Integer(4), PerChannel()))
    with pytest.raises(GraphError, match="groups of 48 do not divide the 1024 weights"):
        Hqq(axis=0).quantize(W, WeightSpec(Integer(4), PerGroup(48)))


def test_no_group_of_qserve_leaves_int8_and_120_would() -> None:
    """All groups there are: their extrema set step and zero point, any value between is allowed."""
    worst = {limit: _worst(limit) for limit in (LIMIT, LIMIT + 1, 127)}
    assert worst == {119: 121, 120: 128, 127: 132}


def _worst(limit: int) -> int:
    values = np.arange(-limit, limit + 1)
    low, high = (each.ravel() for each in np.meshgrid(values, values))
    holds_zero = (low <= 0) & (high >= 0)
    low, high = low[holds_zero], high[holds_zero]
    step = np.maximum(np.rint((high - low) / 15), 1)
    zero = np.clip(np.rint(-low / step), 0, 15)
    worst = 0
    for value in values:
        inside = (low <= value) & (value <= high)
        codes = np.clip(np.rint(value / step[inside]) + zero[inside], 0, 15)
        worst = max(worst, int(np.abs((codes - zero[inside]) * step[inside]).max(initial=0)))
    return worst


def test_groups_of_one_sign_keep_their_size_in_qserve() -> None:
    weight = np.full((2, 32), 0.3)
    weight[1, :16] = -0.2
    weight[1, 16:] = np.linspace(0.25, 0.3, 16)
    found = Qserve().quantize(weight, WeightSpec(Integer(4, signed=False), PerGroup(16)))
    # Steps are whole: 15 of them miss up to 7.5 of the 119 or, here, 79 of a group.
    np.testing.assert_allclose(found.tensor.decode(), weight, rtol=7.5 / 79)


def test_groups_of_small_weights_have_the_step_one_in_qserve() -> None:
    weight = np.zeros((1, 32))
    weight[0, 0], weight[0, 16:] = 119, np.arange(16) % 7 - 3
    found = Qserve().quantize(weight, WeightSpec(Integer(4, signed=False), PerGroup(16))).tensor
    np.testing.assert_array_equal(found.decode()[0, 16:], weight[0, 16:])


def test_qserve_in_two_levels() -> None:
    spec = WeightSpec(Integer(4, signed=False), PerGroup(16))
    tensor = Qserve().quantize(W, spec).tensor
    assert isinstance(tensor, ProgressiveTensor)
    middle = tensor.middle()
    assert np.abs(middle).max() <= 121
    np.testing.assert_array_equal(
        tensor.decode(DType.F64), middle * tensor.channel_scale.astype(np.float64)
    )
    assert tensor.bytes == 16 * 32 + 16 * 4 + 16 * 4 // 2 + 16 * 4
    fine = WeightSpec(Integer(4), PerGroup(16), ASYMMETRIC)
    assert tensor.squared_error(W) < 2 * plain(MIN_MAX, fine).squared_error(W)
    for bad in (WeightSpec(Integer(4), PerGroup(16)), WeightSpec(Integer(8), PerGroup(16))):
        with pytest.raises(GraphError, match="qserve makes uint4"):
            Qserve().quantize(W, bad)
    with pytest.raises(GraphError, match="qserve needs groups"):
        Qserve().quantize(W, WeightSpec(Integer(4, signed=False), PerChannel()))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: MeanSquare(norm=0),
        lambda: MeanSquare(grid=0),
        lambda: MeanSquare(shrink=1),
        lambda: Percentile(0),
        lambda: Percentile(101),
        lambda: Ssz(steps=-1),
        lambda: Ssz(stop="some"),  # pyright: ignore[reportArgumentType]
        lambda: Ssz(compute=DType.F16),  # pyright: ignore[reportArgumentType]
        lambda: Hqq(norm=2),
        lambda: Hqq(kappa=0.5),
        lambda: Hqq(axis=2),  # pyright: ignore[reportArgumentType]
    ],
)
def test_options_that_do_not_exist(attempt: Any) -> None:
    with pytest.raises(GraphError, match="cannot have") as refused:
        attempt()
    assert refused.value.code == "bad-algorithm"


def test_rows_of_zeros_are_told() -> None:
    weight = W.copy()
    weight[4] = 0
    known = statistics_of(MADE.held_out)
    for algorithm in (MIN_MAX, MeanSquare(grid=5), Percentile(), Ssz(), Hqq()):
        found = algorithm.quantize(weight, WeightSpec(Integer(4), PerChannel()), known)
        told = f"{algorithm.name}: 1 of 16 scales are 1 because all values are zero; the first is"
        assert str(found.remarks[0]).startswith(told)
