"""Round to nearest: three tools code by code, and tensors that are hard."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.formats.hifloat4 import HiFloat4
from ascendfx.quant_passes.formats.hifloat8 import HiFloat8
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.formats.normal_float4 import NF4
from ascendfx.quant_passes.formats.vector_codebook import VectorCodebook
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import (
    Granularity,
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
)
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import extreme_scales, round_to_nearest
from ascendfx.quant_passes.scaling.scale_rule import (
    DYNAMIC,
    FULL_RANGE,
    MSMODELSLIM,
    OPTIQUANT,
    ScaleRule,
)
from tests.quant.reference_vectors import vectors

RTN = vectors("round_to_nearest")
W = RTN["W"]
GRANULARITIES = [PerTensor(), PerChannel(), PerToken(), PerGroup(16), PerBlock(24, 48)]
FORMATS = [Integer(2), Integer(3), Integer(4), Integer(8, narrow=True), E4M3FN(), NF4, HiFloat8()]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("law", ["sym", "asym"])
def test_ist_gptq(bits: int, law: str) -> None:
    rule = replace(FULL_RANGE, symmetric=law == "sym")
    tensor = round_to_nearest(W, Integer(bits, signed=False), PerChannel(), rule)
    name = f"ist_rtn_int{bits}_{law}"
    np.testing.assert_array_equal(tensor.affine.scale, RTN[f"{name}_scale"])
    np.testing.assert_array_equal(tensor.affine.zero, RTN[f"{name}_zero"])
    np.testing.assert_array_equal(tensor.decode(), RTN[name])


@pytest.mark.parametrize(
    ("name", "bits", "granularity"),
    [
        ("int4_channel", 4, PerChannel()),
        ("int8_channel", 8, PerChannel()),
        ("int4_g32", 4, PerGroup(32)),
        ("int4_asym_g32", 4, PerGroup(32)),
    ],
)
def test_compressed_tensors(name: str, bits: int, granularity: Granularity) -> None:
    rule = replace(FULL_RANGE, symmetric="asym" not in name)
    tensor = round_to_nearest(W, Integer(bits), granularity, rule)
    zero = np.zeros(1) if tensor.affine.zero is None else tensor.affine.zero
    np.testing.assert_array_equal(tensor.affine.scale, RTN[f"ct_{name}_scale"])
    np.testing.assert_array_equal(
        np.broadcast_to(zero, RTN[f"ct_{name}_zp"].shape), RTN[f"ct_{name}_zp"]
    )
    np.testing.assert_array_equal(tensor.decode(), RTN[f"ct_rtn_{name}"])


@pytest.mark.parametrize("bits", [4, 8])
def test_msmodelslim(bits: int) -> None:
    tensor = round_to_nearest(W, Integer(bits), PerChannel(), MSMODELSLIM)
    np.testing.assert_array_equal(tensor.codes, RTN[f"ms_minmax_int{bits}_int"])
    np.testing.assert_array_equal(tensor.affine.scale, RTN[f"ms_minmax_int{bits}_scale"])
    assert not RTN[f"ms_minmax_int{bits}_offset"].any()
    assert tensor.affine.zero is None


def test_optiquant_starts_from_the_same_scale_on_narrow_codes() -> None:
    tensor = round_to_nearest(W, Integer(4, narrow=True), PerChannel(), OPTIQUANT)
    np.testing.assert_array_equal(tensor.decode(), RTN["optiquant_int4"])


def test_fp8_blocks_with_partial_ones() -> None:
    data = vectors("float8")
    tensor = round_to_nearest(data["block_w"], E4M3FN(), PerBlock(128, 128), DYNAMIC)
    np.testing.assert_array_equal(tensor.codes, data["block_q_bytes"])
    np.testing.assert_array_equal(tensor.affine.scale, data["block_scale_inv"])
    bits = tensor.decode(DType.BF16).view(np.int16)
    np.testing.assert_array_equal(bits, data["block_dequant_bf16_bits"])


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_every_format_with_every_granularity_keeps_its_bound(
    form: Format, granularity: Granularity
) -> None:
    """What is off is at most the bound of the format times the scale.

    In float64 the quotient and the product round by 2^-53 each, relative to the number.
    """
    rule = ScaleRule(reach=15.0) if isinstance(form, HiFloat8) else ScaleRule()
    tensor = round_to_nearest(W, form, granularity, rule)
    scale = np.broadcast_to(granularity.spread(tensor.affine.scale, W.shape), W.shape)
    bound = form.error_bound(W / scale.astype(np.float64)) * scale
    off = np.abs(tensor.decode(DType.F64) - W)
    assert (off <= bound + 2.0**-50 * np.abs(W)).all()
    assert tensor.squared_error(W) == pytest.approx(np.square(off).sum(), rel=1e-12)


@given(
    seed=st.integers(0, 2**32), bits=st.integers(2, 8), granularity=st.sampled_from(GRANULARITIES)
)
def test_asymmetric_codes_against_one_value_at_a_time(
    seed: int, bits: int, granularity: Granularity
) -> None:
    values = np.random.default_rng(seed).normal(0.3, 1, (3, 48))
    form, rule = Integer(bits), ScaleRule(symmetric=False)
    tensor = round_to_nearest(values, form, granularity, rule)
    scale = np.broadcast_to(granularity.spread(tensor.affine.scale, values.shape), values.shape)
    assert tensor.affine.zero is not None
    zero = np.broadcast_to(granularity.spread(tensor.affine.zero, values.shape), values.shape)
    codes, decoded = tensor.codes, tensor.decode()
    for place in np.ndindex(values.shape):
        code = round(values[place] / float(scale[place])) + int(zero[place])
        assert codes[place] == min(max(code, form.low), form.high)
        number = (int(codes[place]) - int(zero[place])) * float(scale[place])
        assert decoded[place] == np.float32(number)


def test_a_zero_point_that_is_not_whole_counts_before_or_after_rounding() -> None:
    scale, zero = np.array([[1.0]]), np.array([[0.5]])
    values, form = np.array([[1.2, 1.6]]), Integer(4)
    before = Affine(scale, zero, PerChannel(), zero_first=True).quantize(values, form)
    after = Affine(scale, zero, PerChannel()).quantize(values, form)
    assert before.tolist() == [[2, 2]]  # round(1.7), round(2.1)
    assert after.tolist() == [[2, 2]]  # round(1.5), round(2.5): ties to even
    assert Affine(scale, zero + 0.2, PerChannel()).quantize(values, form).tolist() == [[2, 3]]


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_all_zero_tensors(form: Format, granularity: Granularity) -> None:
    tensor = round_to_nearest(np.zeros((48, 96)), form, granularity)
    assert (tensor.affine.scale == 1).all()
    np.testing.assert_array_equal(tensor.decode(), 0)
    scales = extreme_scales(np.zeros((48, 96)), form, granularity, DYNAMIC)
    assert scales.all_zero.all()


@pytest.mark.parametrize("shape", [(0, 96), (3, 0), (0, 0), (2, 0, 96)])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_empty_tensors(shape: tuple[int, ...], granularity: Granularity) -> None:
    tensor = round_to_nearest(np.zeros(shape, np.float32), Integer(4), granularity)
    assert tensor.decode().shape == shape
    assert tensor.squared_error(np.zeros(shape)) == 0


def test_a_number_alone() -> None:
    tensor = round_to_nearest(np.array(-0.7), Integer(8), PerTensor())
    assert tensor.codes == -127
    assert tensor.shape == ()


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, bfloat16])
def test_layout_and_element_format_change_nothing(granularity: Granularity, dtype: Any) -> None:
    values = W.astype(dtype)
    plain = round_to_nearest(values, Integer(4), granularity)
    strided = np.asfortranarray(np.repeat(values, 2, axis=0))[::2]
    other = round_to_nearest(strided, Integer(4), granularity)
    wide = round_to_nearest(values.astype(np.float64), Integer(4), granularity)
    for each in (other, wide):
        np.testing.assert_array_equal(each.codes, plain.codes)
        np.testing.assert_array_equal(each.affine.scale, plain.affine.scale)
    assert other.squared_error(strided) == plain.squared_error(values)


@pytest.mark.parametrize("granularity", [*GRANULARITIES, PerBlock(1, 7)])
def test_parts_of_a_tensor_are_put_together(
    granularity: Granularity, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = replace(ScaleRule(), symmetric=False)
    whole = round_to_nearest(W, Integer(4), granularity, rule)
    decoded, error = whole.decode(), whole.squared_error(W)
    monkeypatch.setattr("ascendfx.quant_passes.scaling.pieces._VALUES", 50)
    parts = round_to_nearest(W, Integer(4), granularity, rule)
    np.testing.assert_array_equal(parts.codes, whole.codes)
    np.testing.assert_array_equal(parts.decode(), decoded)
    assert parts.squared_error(W) == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", [Integer(4), E4M3FN()], ids=lambda form: form.name)
def test_weights_that_are_not_finite_are_refused(bad: float, form: Format) -> None:
    values = W.copy()
    values[5, 40] = bad
    with pytest.raises(GraphError, match=r"the first is \[5, 1\] of \[64, 2\]") as refused:
        round_to_nearest(values, form, PerGroup(32))
    assert refused.value.code == "values-not-finite"


@pytest.mark.parametrize("form", [Integer(4), E4M3FN(), NF4], ids=lambda form: form.name)
@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e30, 3e38])
def test_extreme_sizes_neither_overflow_nor_divide_by_zero(form: Format, size: float) -> None:
    values = np.array([[size, -size / 2, 0, size / 3]], np.float32)
    for rule in (DYNAMIC, ScaleRule()):
        tensor = round_to_nearest(values, form, PerChannel(), rule)
        off = np.abs(tensor.decode(DType.F64) - values)
        assert (off <= max(0.2 * size, 2.0**-126)).all()


@pytest.mark.parametrize("rule", [FULL_RANGE, ScaleRule()])
def test_a_range_wider_than_float32_has_a_scale(rule: ScaleRule) -> None:
    values = np.array([[3e38, -3e38, 1e38]], np.float32)
    tensor = round_to_nearest(values, Integer(8), PerChannel(), replace(rule, symmetric=False))
    assert tensor.affine.scale[0, 0] == pytest.approx(6e38 / 255, rel=1e-6)
    assert (np.abs(tensor.decode(DType.F64) - values) <= 6e38 / 255 * 0.51).all()


def test_bytes_when_stored() -> None:
    def size(form: Format, granularity: Granularity, rule: ScaleRule) -> int:
        return round_to_nearest(W, form, granularity, rule).bytes

    assert size(Integer(4), PerChannel(), DYNAMIC) == 64 * 32 + 64 * 4
    assert size(Integer(3), PerGroup(32), DYNAMIC) == 64 * 24 + 128 * 4
    assert size(Integer(4), PerGroup(32), ScaleRule(symmetric=False, stored=DType.BF16)) == (
        64 * 32 + 128 * 2 + 128 // 2
    )
    assert size(E4M3FN(), PerBlock(48, 48), DYNAMIC) == 64 * 64 + 4 * 4
    unrounded = ScaleRule(symmetric=False, round_zero=False)
    assert size(Integer(4), PerChannel(), unrounded) == 64 * 32 + 64 * 8


def test_tensors_whose_parts_do_not_fit() -> None:
    tensor = round_to_nearest(W, Integer(4), PerChannel())
    affine = tensor.affine
    cases: list[tuple[Any, str]] = [
        (lambda: QuantizedTensor(tensor.codes[:3], affine, tensor.format), "bad-granularity"),
        (
            lambda: QuantizedTensor(tensor.codes.view(np.uint8), affine, tensor.format),
            "code-out-of-range",
        ),
        (lambda: tensor.squared_error(W[:3]), "bad-granularity"),
        (lambda: affine.quantize(W[:3], Integer(4)), "bad-granularity"),
        (lambda: Affine(np.zeros((1, 1)), None, PerTensor()), "bad-scale"),
        (lambda: Affine(-np.ones((1, 1)), None, PerTensor()), "bad-scale"),
        (lambda: Affine(np.full((1, 1), np.nan), None, PerTensor()), "bad-scale"),
        (lambda: Affine(np.ones((1, 1)), np.full((1, 1), np.inf), PerTensor()), "bad-scale"),
        (lambda: Affine(np.ones((2, 1)), np.ones((1, 1)), PerTensor()), "bad-granularity"),
    ]
    for attempt, code in cases:
        with pytest.raises(GraphError) as refused:
            attempt()
        assert refused.value.code == code


def test_orderings_that_always_hold() -> None:
    """quantization facts, section 8: of weights alone, on 40 seeds and two laws."""
    better: dict[str, list[bool]] = {}
    for seed in range(40):
        random = np.random.default_rng(seed)
        for heavy in (False, True):
            weights = 0.02 * random.standard_normal((32, 256))
            if heavy:
                weights *= np.exp(0.6 * random.standard_normal(weights.shape))
            for name, won in _orderings(weights).items():
                better.setdefault(name, []).append(won)
    assert {name: sum(won) for name, won in better.items()} == dict.fromkeys(better, 80)


def _orderings(weights: NDArray[np.float64]) -> dict[str, bool]:
    def error(form: Format, granularity: Granularity, rule: ScaleRule = FULL_RANGE) -> float:
        return round_to_nearest(weights, form, granularity, rule).squared_error(weights)

    own, int4 = ScaleRule(), Integer(4)
    return {
        "groups of 64 below channels": error(int4, PerGroup(64)) < error(int4, PerChannel()),
        "asymmetric below symmetric": error(
            int4, PerGroup(64), replace(FULL_RANGE, symmetric=False)
        )
        < error(int4, PerGroup(64)),
        "NF4 below int4": error(NF4, PerGroup(64), own) < error(int4, PerGroup(64)),
        "int8 below E4M3": error(Integer(8), PerChannel(), own)
        < error(E4M3FN(), PerChannel(), own),
        "HiFloat8 to 15 below unscaled": error(HiFloat8(), PerChannel(), replace(own, reach=15))
        < float(np.square(HiFloat8().decode(HiFloat8().encode(weights)) - weights).sum()),
    }


def test_lists_are_taken() -> None:
    tensor = round_to_nearest([[1.0, -2.0]], Integer(8), PerToken())  # pyright: ignore[reportArgumentType]
    assert tensor.codes.tolist() == [[64, -127]]
    assert tensor.squared_error([[1.0, -2.0]]) < 1e-4  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("form", [HiFloat4(), VectorCodebook(np.eye(2)), "int4"])
def test_what_has_no_code_per_value_is_refused(form: object) -> None:
    with pytest.raises(GraphError, match="has no code per value") as refused:
        round_to_nearest(W, form, PerChannel())  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "bad-format"
