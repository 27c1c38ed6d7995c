"""GPTQ against its definition, and what it does when calibration has little to say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.inverse_cholesky import inverse_cholesky
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.qserve import Qserve
from ascendfx.quant_passes.algorithms.ssz import Ssz
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.formats.normal_float4 import NF4
from ascendfx.quant_passes.scaling.granularity import (
    Granularity,
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
)
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule
from ascendfx.quant_passes.statistics import InputStatistics, statistics_of, without_tokens
from tests.quant.algorithms.layers import layer

MADE = layer(0, heavy=True, out=12, width=48, tokens=400)
SPEC = WeightSpec(Integer(4), PerChannel())


def plain(algorithm: Any, spec: WeightSpec, known: InputStatistics | None = None) -> Any:
    found = algorithm.quantize(MADE.weight, spec, known or MADE.known)
    assert isinstance(found.tensor, QuantizedTensor)
    return found.tensor


def by_definition(tensor: QuantizedTensor, order: Any, damping: float = 0.01) -> Any:
    """Round columns one by one, inverting what is left of ``H`` each time: no factor, no blocks."""
    moments = MADE.known.moments
    assert moments is not None
    damped = moments + damping * np.diagonal(moments).mean() * np.eye(len(moments))
    weight, codes = MADE.weight.copy(), np.zeros_like(tensor.codes)
    left = list(order)
    while left:
        column, inverse = left[0], np.linalg.inv(damped[np.ix_(left, left)])
        codes[:, column] = tensor.affine.quantize(weight, tensor.format)[:, column]
        decoded = tensor.affine.dequantize(codes, tensor.format, DType.F64)
        off = (weight[:, column] - decoded[:, column]) / inverse[0, 0]
        weight[:, left] -= np.outer(off, inverse[0])
        left = left[1:]
    return codes


@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize("granularity", [PerChannel(), PerGroup(16), PerTensor(), PerBlock(5, 20)])
@pytest.mark.parametrize(
    ("form", "rule"),
    [
        (Integer(4), ScaleRule()),
        (Integer(3), ScaleRule(symmetric=False)),
        (Integer(3), ScaleRule(symmetric=False, round_zero=False, zero_first=True)),
        (NF4, ScaleRule()),
        (E4M3FN(), ScaleRule()),
    ],
)
def test_codes_are_those_of_the_definition(
    form: Format,
    rule: ScaleRule,
    granularity: Granularity,
    act_order: bool,  # noqa: FBT001
) -> None:
    tensor = plain(Gptq(act_order=act_order), WeightSpec(form, granularity, rule))
    moments = MADE.known.moments
    assert moments is not None
    order = np.argsort(-np.diagonal(moments), kind="stable") if act_order else range(48)
    np.testing.assert_array_equal(tensor.codes, by_definition(tensor, order))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plain(Gptq(), SPEC).codes
    monkeypatch.setattr("ascendfx.quant_passes.algorithms.gptq._BLOCK", 7)
    np.testing.assert_array_equal(plain(Gptq(), SPEC).codes, whole)


def test_static_groups_have_scales_of_the_weight_and_dynamic_ones_of_what_became_of_it() -> None:
    spec = WeightSpec(Integer(4), PerGroup(16))
    usual = MIN_MAX.quantize(MADE.weight, spec).tensor
    assert isinstance(usual, QuantizedTensor)
    static = plain(Gptq(act_order=False), spec)
    dynamic = plain(Gptq(act_order=False, groups="dynamic"), spec)
    np.testing.assert_array_equal(static.affine.scale, usual.affine.scale)
    np.testing.assert_array_equal(dynamic.affine.scale[:, 0], usual.affine.scale[:, 0])
    assert (dynamic.affine.scale[:, 1:] != usual.affine.scale[:, 1:]).any()
    assert MADE.calibration_error(dynamic.decode()) < MADE.calibration_error(usual.decode())


def test_the_inverse_factor() -> None:
    random = np.random.default_rng(0)
    for size in (1, 5, 128, 129, 300):
        x = random.standard_normal((size + 3, size))
        matrix = x.T @ x + np.eye(size)
        upper = inverse_cholesky(matrix)
        np.testing.assert_array_equal(upper, np.triu(upper))
        np.testing.assert_allclose(upper @ matrix @ upper.T, np.eye(size), atol=1e-10)
    with pytest.raises(np.linalg.LinAlgError):
        inverse_cholesky(-np.eye(3))


@pytest.mark.parametrize("tokens", [0, 1, 20, 191])
def test_too_few_tokens_go_to_the_fallback_with_a_remark(tokens: int) -> None:
    known = statistics_of(MADE.held_out[:tokens])
    found = Gptq(fallback=Ssz()).quantize(MADE.weight, SPEC, known)
    instead = Ssz().quantize(MADE.weight, SPEC).tensor
    np.testing.assert_array_equal(found.tensor.decode(), instead.decode())
    assert str(found.remarks[0]) == f"gptq: {tokens} tokens are fewer than 192; ssz took over"
    assert not Gptq().quantize(MADE.weight, SPEC, statistics_of(MADE.held_out[:192])).remarks


def test_without_a_gate_few_tokens_are_used_and_none_fall_back() -> None:
    used = Gptq(tokens_per_input=0)
    assert not used.quantize(MADE.weight, SPEC, statistics_of(MADE.held_out[:1])).remarks
    found = used.quantize(MADE.weight, SPEC, without_tokens(48))
    assert "0 tokens are fewer than 1" in str(found.remarks[0])


@pytest.mark.parametrize("act_order", [False, True])
def test_dead_channels_are_rounded_or_zero_and_told(act_order: bool) -> None:  # noqa: FBT001
    inputs = MADE.held_out.copy()
    inputs[:, [3, 17]] = 0
    known = statistics_of(inputs)
    found = Gptq(act_order=act_order).quantize(MADE.weight, SPEC, known)
    usual = MIN_MAX.quantize(MADE.weight, SPEC).tensor.decode()
    np.testing.assert_array_equal(found.tensor.decode()[:, [3, 17]], usual[:, [3, 17]])
    told = "gptq: 2 channels had no input and are rounded to nearest; the first is 3"
    assert [str(each) for each in found.remarks] == [told]
    zero = Gptq(act_order=act_order, dead="zero").quantize(MADE.weight, SPEC, known)
    assert not zero.tensor.decode()[:, [3, 17]].any()
    live = np.delete(np.arange(48), [3, 17])
    np.testing.assert_array_equal(zero.tensor.decode()[:, live], found.tensor.decode()[:, live])


def test_zeroing_dead_channels_first_makes_scales_without_them() -> None:
    weight = MADE.weight.copy()
    weight[:, 3] = 10
    inputs = MADE.held_out.copy()
    inputs[:, 3] = 0
    known = statistics_of(inputs)
    for algorithm, large in ((Gptq(dead="zero"), True), (Gptq(dead="zero-first"), False)):
        found = algorithm.quantize(weight, SPEC, known).tensor
        assert isinstance(found, QuantizedTensor)
        assert (found.affine.scale > 1).all() == large


def test_damping_rises_until_there_is_a_factor() -> None:
    """Moments that no inputs have: an eigenvalue of -0.05 times the mean diagonal."""
    indefinite = np.eye(48)
    indefinite[0, 1] = indefinite[1, 0] = 1.05
    known = replace(MADE.known, moments=indefinite)
    found = Gptq().quantize(MADE.weight, SPEC, known)
    assert str(found.remarks[0]) == "gptq: damping was raised from 0.01 to 0.1"
    indefinite[0, 1] = indefinite[1, 0] = 3
    found = Gptq().quantize(MADE.weight, SPEC, known)
    assert "has no Cholesky factor even with damping 1; min_max took over" in str(found.remarks[0])


def test_scales_can_come_from_the_moments() -> None:
    algorithm = Gptq(scales=Ssz(weighted=True))
    found = plain(algorithm, SPEC)
    weighted = Ssz(weighted=True).quantize(MADE.weight, SPEC, MADE.known).tensor
    assert isinstance(weighted, QuantizedTensor)
    np.testing.assert_array_equal(found.affine.scale, weighted.affine.scale)
    with pytest.raises(GraphError, match="gptq cannot have scales"):
        Gptq(act_order=False, groups="dynamic", scales=Ssz(weighted=True))


def test_collinear_inputs_have_a_factor() -> None:
    """Every channel twice, and one token again and again: singular without damping."""
    twice = np.repeat(MADE.held_out[:, :24], 2, axis=1)
    for inputs in (twice, np.repeat(MADE.held_out[:1], 200, axis=0)):
        found = Gptq().quantize(MADE.weight, SPEC, statistics_of(inputs))
        assert np.isfinite(found.tensor.decode()).all()


def test_options_that_do_not_exist() -> None:
    attempts: tuple[Any, ...] = (
        lambda: Gptq(groups="dynamic"),
        lambda: Gptq(damping=0),
        lambda: Gptq(damping=2),
        lambda: Gptq(tokens_per_input=-1),
        lambda: Gptq(dead="drop"),  # pyright: ignore[reportArgumentType]
        lambda: Gptq(groups="some", act_order=False),  # pyright: ignore[reportArgumentType]
        lambda: Gptq(fallback=Gptq()),
        lambda: Gptq(scales=Gptq()),
        lambda: Gptq(scales=Qserve()).quantize(
            MADE.weight, WeightSpec(Integer(4, signed=False), PerGroup(16)), MADE.known
        ),
    )
    for attempt in attempts:
        with pytest.raises(GraphError) as refused:
            attempt()
        assert refused.value.code == "bad-algorithm"
    with pytest.raises(GraphError, match="groups of 20 do not divide") as refused:
        Gptq().quantize(MADE.weight, WeightSpec(Integer(4), PerGroup(20)), MADE.known)
    assert refused.value.code == "bad-granularity"
