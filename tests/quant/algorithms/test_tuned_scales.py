"""Tuned scales against a solver, against what they begin with, and where nothing can be tuned."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.qserve import Qserve
from ascendfx.quant_passes.algorithms.tuned_scales import TunedScales, factors_of_groups
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm, WeightSpec
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.formats.normal_float4 import NF4
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerGroup, PerTensor
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule
from ascendfx.quant_passes.statistics import without_tokens
from tests.quant.algorithms.layers import Layer, layer

Rows = PerChannel | PerGroup


def small(seed: int = 1) -> Layer:
    return layer(seed, heavy=True, tokens=300, out=24, width=64)


@pytest.mark.parametrize("granularity", [PerChannel(), PerGroup(16)])
def test_factors_are_those_of_least_squares(granularity: Rows) -> None:
    made = small()
    assert made.known.moments is not None
    spec = WeightSpec(Integer(3), granularity, ScaleRule(stored=DType.F64))
    decoded = MIN_MAX.quantize(made.weight, spec, made.known).tensor.decode(DType.F64)
    size = granularity.size if isinstance(granularity, PerGroup) else 64
    found = factors_of_groups(decoded, made.weight, made.known.moments, size)
    root = np.linalg.cholesky(made.known.moments).T
    for row, (numbers, weight) in enumerate(zip(decoded, made.weight, strict=True)):
        columns = [
            root[:, i : i + size] @ numbers[i : i + size] for i in range(0, len(numbers), size)
        ]
        true = np.linalg.lstsq(np.stack(columns, 1), root @ weight, rcond=None)[0]
        np.testing.assert_allclose(found[row], true, rtol=1e-5)


@pytest.mark.parametrize("granularity", [PerChannel(), PerGroup(16)])
@pytest.mark.parametrize("codes", [MIN_MAX, Gptq(tokens_per_input=1)])
def test_no_row_is_worse_and_most_are_better(granularity: Rows, codes: WeightAlgorithm) -> None:
    made = small()
    moments = made.known.moments
    assert moments is not None
    spec = WeightSpec(Integer(3), granularity)
    before, after = (
        each.quantize(made.weight, spec, made.known).tensor for each in (codes, TunedScales(codes))
    )
    assert isinstance(before, QuantizedTensor)
    assert isinstance(after, QuantizedTensor)
    np.testing.assert_array_equal(before.codes, after.codes)
    assert before.bytes == after.bytes
    changes = [each.decode(DType.F64) - made.weight for each in (before, after)]
    errors = [np.einsum("oi,ij,oj->o", change, moments, change) for change in changes]
    assert (errors[1] <= errors[0] * (1 + 1e-9)).all()
    assert (errors[1] < errors[0]).mean() > 0.5


def test_tokens_not_seen_gain_too() -> None:
    """Rounding to two bits leaves much to make up for, and scales are few."""
    spec = WeightSpec(Integer(2), PerGroup(16))
    for seed in range(4):
        made = layer(seed, heavy=False, tokens=1024, out=32, width=64)
        tuned, rounded = (
            made.held_out_error(each.quantize(made.weight, spec, made.known).tensor.decode())
            for each in (TunedScales(MIN_MAX), MIN_MAX)
        )
        assert tuned < 0.8 * rounded


def test_groups_of_zeros_stay_zeros() -> None:
    made = small()
    weight = made.weight.copy()
    weight[3, :16] = 0
    weight[5] = 0
    spec = WeightSpec(Integer(4), PerGroup(16))
    decoded = TunedScales(MIN_MAX).quantize(weight, spec, made.known).tensor.decode()
    assert not decoded[3, :16].any()
    assert not decoded[5].any()
    assert np.isfinite(decoded).all()


def test_without_tokens_scales_stay() -> None:
    made = small()
    spec = WeightSpec(Integer(4), PerChannel())
    for known, told in (
        (without_tokens(64), "0 tokens are fewer than 64; scales stay those of min_max"),
        (replace(made.known, tokens=63), "63 tokens are fewer than 64"),
        (replace(made.known, moments=np.zeros((64, 64))), "all inputs were zero"),
    ):
        found = TunedScales(MIN_MAX).quantize(made.weight, spec, known)
        assert told in str(found.remarks[0])
        true = MIN_MAX.quantize(made.weight, spec).tensor.decode()
        np.testing.assert_array_equal(found.tensor.decode(), true)


@pytest.mark.parametrize(
    ("codes", "form", "granularity", "code"),
    [
        (MIN_MAX, NF4, PerChannel(), "bad-format"),
        (MIN_MAX, Integer(4), PerTensor(), "bad-granularity"),
        (Qserve(), Integer(4, signed=False), PerGroup(16), "bad-algorithm"),
    ],
)
def test_what_has_no_scales_of_rows_is_refused(
    codes: WeightAlgorithm, form: Format, granularity: Rows | PerTensor, code: str
) -> None:
    made = small()
    with pytest.raises(GraphError) as caught:
        TunedScales(codes).quantize(made.weight, WeightSpec(form, granularity), made.known)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "make",
    [
        lambda: TunedScales(damping=0),
        lambda: TunedScales(tokens_per_input=-1),
        lambda: TunedScales(TunedScales()),
    ],
    ids=["damping", "tokens", "codes"],
)
def test_options_that_do_not_exist_are_refused(make: Callable[[], TunedScales]) -> None:
    with pytest.raises(GraphError, match="bad-algorithm"):
        make()
