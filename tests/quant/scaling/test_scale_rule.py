"""From extrema to scales and zero points."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.hifloat8 import HiFloat8
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import PerChannel
from ascendfx.quant_passes.scaling.scale_rule import (
    DYNAMIC,
    FP8_DYNAMIC,
    FULL_RANGE,
    MSMODELSLIM,
    OMNIQUANT,
    OPTIQUANT,
    ScaleRule,
)

PRESETS = {
    "msmodelslim": MSMODELSLIM,
    "optiquant": OPTIQUANT,
    "full-range": FULL_RANGE,
    "omniquant": OMNIQUANT,
    "dynamic": DYNAMIC,
    "own": ScaleRule(),
}
INT4, UINT4 = Integer(4), Integer(4, signed=False)
SINGLE = st.floats(allow_nan=False, allow_infinity=False, width=32)


def one(rule: ScaleRule, low: float, high: float, form: Integer) -> tuple[float, float | None]:
    found = rule.scales(np.array([low]), np.array([high]), form)
    return float(found.scale[0]), None if found.zero is None else float(found.zero[0])


def test_the_conventions_by_hand() -> None:
    single = np.float32
    assert one(MSMODELSLIM, -3, 2, INT4) == (single(3) / single(7), None)
    assert one(OPTIQUANT, -3, 2, Integer(4, narrow=True)) == (single(3) / single(7), None)
    assert one(FULL_RANGE, -3, 2, INT4) == (single(3) / single(7.5), None)
    assert one(FULL_RANGE, -3, 2, UINT4) == (single(3) / single(7.5), 8)
    assert one(OMNIQUANT, -3, 2, UINT4) == (single(3) / single(7), 7)
    assert one(replace(MSMODELSLIM, symmetric=False), -3, 2, INT4) == (single(5) / single(15), 1)
    assert one(replace(FULL_RANGE, symmetric=False), -3, 2, UINT4) == (single(5) / single(15), 9)
    assert one(ScaleRule(stored=DType.F64), -3, 2, INT4) == (3 / 7, None)
    unrounded = replace(ScaleRule(symmetric=False, stored=DType.F64), round_zero=False)
    assert one(unrounded, -3, 2, UINT4) == (1 / 3, 9.0)
    assert one(unrounded, -1, 2, UINT4) == (0.2, 5.0)


def test_zero_in_the_range_or_not() -> None:
    inside, outside = (replace(OPTIQUANT, symmetric=False, include_zero=z) for z in (True, False))
    assert one(inside, 1, 4, UINT4) == (np.float32(4) / np.float32(15), 0)
    assert one(outside, 1, 4, UINT4) == (np.float32(3) / np.float32(15), -5)
    assert one(replace(outside, clip_zero=True), 1, 4, UINT4)[1] == 0


def test_limits_of_scales() -> None:
    assert one(OPTIQUANT, -1e-6, 0, INT4)[0] == np.float32(1e-5)
    assert one(OMNIQUANT, -1e6, 0, UINT4)[0] == np.float32(1e4)
    assert one(MSMODELSLIM, -1e-9, 0, INT4)[0] == np.finfo(np.float32).eps
    found = FP8_DYNAMIC.scales(np.array([-1e-6]), np.array([0.0]), E4M3FN())
    assert found.scale[0] == np.float32(1e-4) / np.float32(448)


def test_the_reach_of_formats() -> None:
    low, high = np.array([-30.0]), np.array([10.0])
    assert replace(ScaleRule(), reach=15).scales(low, high, HiFloat8()).scale == 2
    assert ScaleRule(stored=DType.F64).scales(low, high, E4M3FN()).scale == 30 / 448


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("symmetric", [True, False])
@given(low=SINGLE, high=SINGLE)
def test_scales_are_positive_and_finite_for_all_finite_extrema(
    name: str,
    symmetric: bool,  # noqa: FBT001
    low: float,
    high: float,
) -> None:
    rule = replace(PRESETS[name], symmetric=symmetric)
    found = rule.scales(np.array([min(low, high)]), np.array([max(low, high)]), UINT4)
    assert np.isfinite(found.scale).all()
    assert (found.scale > 0).all()
    assert found.zero is not None
    assert np.isfinite(found.zero).all()
    assert found.all_zero[0] == (low == high == 0)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("form", [INT4, UINT4, Integer(8, narrow=True)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_rows_of_zeros_have_scale_one_and_stay_zero(
    name: str,
    form: Integer,
    symmetric: bool,  # noqa: FBT001
) -> None:
    rule = replace(PRESETS[name], symmetric=symmetric)
    found = rule.scales(np.array([[0.0], [-1.0]]), np.array([[-0.0], [1.0]]), form)
    assert found.all_zero.tolist() == [[True], [False]]
    assert found.scale[0] == 1
    affine = Affine(found.scale, found.zero, PerChannel(), rule.zero_first, rule.compute)
    rows = np.array([[0.0, -0.0], [-1.0, 1.0]])
    assert affine.dequantize(affine.quantize(rows, form), form)[0].tolist() == [0, 0]


@given(number=st.floats(-(2.0**100), 2.0**100, width=32), width=st.integers(2, 8))
def test_rows_of_one_value_are_exact_where_zero_is_not_forced(number: float, width: int) -> None:
    if abs(number) < 1e-30:
        return
    rule = ScaleRule(symmetric=False, include_zero=False)
    form = Integer(width, signed=False)
    found = rule.scales(np.array([[number]]), np.array([[number]]), form)
    affine = Affine(found.scale, found.zero, PerChannel())
    row = np.array([[number, number]])
    np.testing.assert_array_equal(affine.dequantize(affine.quantize(row, form), form), row)


@pytest.mark.parametrize("stored", [DType.F32, DType.BF16, DType.F16])
def test_scales_are_those_that_are_stored(stored: DType) -> None:
    random = np.random.default_rng(0)
    high = random.uniform(0.1, 5, 1000)
    rule = ScaleRule(stored=stored)  # pyright: ignore[reportArgumentType]
    scale = rule.scales(-high, high, INT4).scale
    assert scale.dtype == np.float32
    np.testing.assert_array_equal(scale.astype(stored.numpy).astype(np.float32), scale)
    relative = np.abs(scale - high / 7) / (high / 7)
    assert (relative <= stored.unit_roundoff).all(), "rounded once, to nearest"


def test_scales_are_not_rounded_twice() -> None:
    """Just above the middle of two bfloat16: by way of float32 it would be the middle, and even."""
    middle = 1 + 2.0**-8
    high = np.array([(middle + 2.0**-40) * 7])
    assert float(bfloat16(np.float32(high[0] / 7))) == 1.0
    assert ScaleRule(stored=DType.BF16).scales(-high, high, INT4).scale[0] == 1 + 2.0**-7


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_extrema_that_are_not_finite_are_refused(bad: float) -> None:
    low, high = np.zeros((3, 1)), np.ones((3, 1))
    low[1] = bad
    with pytest.raises(GraphError) as refused:
        DYNAMIC.scales(low, high, INT4)
    assert str(refused.value) == (
        "error[values-not-finite]: 1 of 3 scales are of values that are infinite or not numbers; "
        "the first is [1, 0] of [3, 1]\n"
        "\n"
        "hint: look for damage in the checkpoint or an overflow in calibration; nothing is replaced"
    )


def test_zeros_are_told() -> None:
    found = DYNAMIC.scales(np.array([[-1.0], [0], [0]]), np.array([[1.0], [0], [0]]), INT4)
    assert [str(each) for each in found.remarks("w")] == [
        "w: 2 of 3 scales are 1 because all values are zero; the first is [1, 0]"
    ]
    assert DYNAMIC.scales(np.array([-1.0]), np.array([1.0]), INT4).remarks("w") == ()


@pytest.mark.parametrize(
    "options",
    [
        {"reach": "topp"},
        {"reach": 0},
        {"reach": float("inf")},
        {"unsigned_zero": "middle"},
        {"compute": DType.F16},
        {"stored": DType.I8},
        {"smallest_scale": -1.0},
        {"smallest_scale": 2.0, "largest_scale": 1.0},
    ],
)
def test_options_that_do_not_exist(options: dict[str, object]) -> None:
    with pytest.raises(GraphError, match="a scale rule cannot have") as refused:
        ScaleRule(**options)  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "bad-scale"


@pytest.mark.parametrize("rule", [replace(DYNAMIC, symmetric=False), FULL_RANGE])
def test_rules_of_integers_refuse_other_formats(rule: ScaleRule) -> None:
    with pytest.raises(GraphError, match="needs integer codes, and float8_e4m3fn has none") as no:
        rule.scales(np.zeros(1), np.ones(1), E4M3FN())
    assert no.value.code == "bad-format"
