"""Results of public packages on one weight of 64 x 64: codes exactly, scales to their last bits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.across_rows import AcrossRows
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.hqq import Hqq
from ascendfx.quant_passes.algorithms.learned_clipping import LearnedClipping
from ascendfx.quant_passes.algorithms.lookup_table import LookupTable
from ascendfx.quant_passes.algorithms.mean_square import MeanSquare
from ascendfx.quant_passes.algorithms.progressive_tensor import ProgressiveTensor
from ascendfx.quant_passes.algorithms.qserve import Qserve
from ascendfx.quant_passes.algorithms.ssz import MSMODELSLIM_SSZ, OPTIQUANT_SSZ
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm, WeightSpec
from ascendfx.quant_passes.formats.codebook import RowCodebooks
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import Granularity, PerChannel, PerGroup
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import (
    DYNAMIC,
    FULL_RANGE,
    MSMODELSLIM,
    OMNIQUANT,
    OPTIQUANT,
    ScaleRule,
)
from ascendfx.quant_passes.statistics import statistics_of
from tests.quant.reference_vectors import vectors

W = vectors("round_to_nearest")["W"]
REFERENCE = vectors("weight_algorithms")
X = REFERENCE["X"]
KNOWN = statistics_of(X)
ASYMMETRIC = replace(FULL_RANGE, symmetric=False)
ULP = float(np.finfo(np.float32).eps)


def plain(algorithm: WeightAlgorithm, spec: WeightSpec, weight: Any = W) -> QuantizedTensor:
    tensor = algorithm.quantize(weight, spec, KNOWN).tensor
    assert isinstance(tensor, QuantizedTensor)
    return tensor


def assert_same_codes(tensor: QuantizedTensor, decoded: NDArray[Any], ulps: float = 4) -> None:
    """A reference stores numbers only: with equal codes they differ by the last bits of scales."""
    steps = decoded / tensor.affine.granularity.spread(tensor.affine.scale, W.shape)
    zero = tensor.affine.zero
    if zero is not None:
        steps = steps + tensor.affine.granularity.spread(zero, W.shape)
    np.testing.assert_array_equal(np.rint(steps), tensor.codes)
    np.testing.assert_allclose(tensor.decode(), decoded, rtol=ulps * ULP, atol=0)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("law", ["sym", "asym"])
def test_gptq_of_ist_daslab(bits: int, law: str) -> None:
    rule = FULL_RANGE if law == "sym" else ASYMMETRIC
    spec = WeightSpec(Integer(bits, signed=False), PerChannel(), rule)
    tensor = plain(Gptq(act_order=False, dead="zero"), spec)
    np.testing.assert_array_equal(tensor.decode(), REFERENCE[f"ist_gptq_int{bits}_{law}"])


def test_gptq_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ascendfx.quant_passes.algorithms.gptq._BLOCK", 16)
    spec = WeightSpec(Integer(4, signed=False), PerChannel(), FULL_RANGE)
    tensor = plain(Gptq(act_order=False, dead="zero"), spec)
    np.testing.assert_array_equal(tensor.decode(), REFERENCE["ist_gptq_int4_sym_bs16"])


@pytest.mark.parametrize(
    ("name", "groups"), [("g32", "static"), ("g32_static", "static"), ("g32_bs32", "dynamic")]
)
def test_gptq_of_ist_daslab_with_groups(name: str, groups: Any) -> None:
    spec = WeightSpec(Integer(4, signed=False), PerGroup(32), ASYMMETRIC)
    tensor = plain(Gptq(act_order=False, groups=groups, dead="zero-first"), spec)
    assert_same_codes(tensor, REFERENCE[f"ist_gptq_int4_asym_{name}"], 4 if "bs32" in name else 0)


def test_the_grid_of_ist_daslab_alone_and_under_gptq() -> None:
    spec = WeightSpec(Integer(4, signed=False), PerChannel(), FULL_RANGE)
    tensor = plain(MeanSquare(norm=2.4), spec)
    np.testing.assert_array_equal(tensor.decode(), REFERENCE["ist_rtn_int4_sym_mse"])
    np.testing.assert_array_equal(tensor.affine.scale, REFERENCE["ist_rtn_int4_sym_mse_scale"])
    under = plain(Gptq(act_order=False, dead="zero", scales=MeanSquare(norm=2.4)), spec)
    np.testing.assert_array_equal(under.decode(), REFERENCE["ist_gptq_int4_sym_mse"])


@pytest.mark.parametrize(
    ("name", "bits", "granularity"),
    [
        ("int4_channel", 4, PerChannel()),
        ("int4_g32", 4, PerGroup(32)),
        ("int4_asym_g32", 4, PerGroup(32)),
        ("int8_channel", 8, PerChannel()),
    ],
)
def test_gptq_of_llmcompressor(name: str, bits: int, granularity: Granularity) -> None:
    rule = ASYMMETRIC if "asym" in name else FULL_RANGE
    tensor = plain(Gptq(act_order=False, dead="zero"), WeightSpec(Integer(bits), granularity, rule))
    np.testing.assert_array_equal(tensor.decode(), REFERENCE[f"ct_gptq_{name}"])


@pytest.mark.parametrize("bits", [4, 8])
def test_ssz_of_msmodelslim(bits: int) -> None:
    tensor = plain(MSMODELSLIM_SSZ, WeightSpec(Integer(bits), PerChannel(), MSMODELSLIM))
    np.testing.assert_array_equal(tensor.codes, REFERENCE[f"ms_ssz_int{bits}_int"])
    np.testing.assert_allclose(
        tensor.affine.scale, REFERENCE[f"ms_ssz_int{bits}_scale"], rtol=4 * ULP
    )
    assert not REFERENCE[f"ms_ssz_int{bits}_offset"].any()


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize(
    ("bits", "size", "symmetric", "steps"),
    [(4, 0, 1, 50), (4, 0, 1, 0), (4, 32, 1, 50), (4, 32, 0, 50), (4, 0, 0, 50), (8, 0, 1, 50)],
)
def test_ssz_of_optiquant(bits: int, size: int, symmetric: int, steps: int, dtype: Any) -> None:
    """float32 sums in another order: codes are equal, scales up to their last bits.

    In one row two rounds have the same codes and mean squares that are equal in float32; which of
    them is kept is up to the order of sums there.
    """
    single = dtype is DType.F32
    rule = replace(
        OPTIQUANT, symmetric=bool(symmetric), zero_first=True, compute=dtype, stored=dtype
    )
    granularity = PerGroup(size) if size else PerChannel()
    spec = WeightSpec(Integer(bits, narrow=bool(symmetric)), granularity, rule)
    weight = W if single else W.astype(bfloat16)
    tensor = plain(replace(OPTIQUANT_SSZ, steps=steps, compute=dtype), spec, weight)
    name = f"optiquant_{'fp32' if single else 'bf16'}_sszs{steps}g{size}a0b{bits}sym{symmetric}"
    if single:
        assert_same_codes(tensor, REFERENCE[name], 160 if not size + symmetric else 4)
        theirs = np.square(REFERENCE[name].astype(np.float64) - W).sum()
        assert tensor.squared_error(W) == pytest.approx(theirs, rel=ULP)
    else:
        decoded = tensor.decode(DType.BF16).astype(np.float32)
        np.testing.assert_array_equal(decoded, REFERENCE[name])


def test_the_export_of_optiquant_has_our_codes_and_scales() -> None:
    spec = WeightSpec(Integer(4, narrow=True), PerChannel(), OPTIQUANT)
    tensor = plain(OPTIQUANT_SSZ, spec)
    np.testing.assert_array_equal(tensor.codes, REFERENCE["optiquant_q4"])
    bits = (REFERENCE["optiquant_int4_scale"][0] & 0xFFFFFFFF).astype(np.uint32)
    np.testing.assert_allclose(tensor.affine.scale[:, 0], bits.view(np.float32), rtol=4 * ULP)
    bias = 8 * tensor.decode().sum(axis=1)
    np.testing.assert_allclose(bias, REFERENCE["optiquant_bias"], atol=64 * 8 * ULP)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("suffix", "steps"), [("", 20), ("_noopt", 0)])
def test_hqq_with_one_update_too_many(bits: int, axis: Any, suffix: str, steps: int) -> None:
    algorithm = Hqq(axis=axis, steps=steps, legacy=True)
    found = algorithm.quantize(W, WeightSpec(Integer(bits, signed=False), PerGroup(32))).tensor
    name = f"hqq_int{bits}_g32_axis{axis}{suffix}"
    if axis == 0:
        assert isinstance(found, AcrossRows)
        tensor, codes = found.groups, found.groups.codes.T
    else:
        assert isinstance(found, QuantizedTensor)
        tensor, codes = found, found.codes.reshape(128, 32)
    np.testing.assert_array_equal(codes, REFERENCE[f"{name}_Wq"])
    scale, zero = (REFERENCE[f"{name}_{each}"].ravel() for each in ("scale", "zero"))
    np.testing.assert_allclose(tensor.affine.scale.ravel(), scale, rtol=4 * ULP)
    assert tensor.affine.zero is not None
    # Zero points are means of numbers up to the highest code, summed in float32 there.
    np.testing.assert_allclose(tensor.affine.zero.ravel(), zero, atol=4 * 2**bits * ULP)


def test_qserve() -> None:
    spec = WeightSpec(Integer(4, signed=False), PerGroup(32), DYNAMIC)
    tensor = Qserve().quantize(W, spec).tensor
    assert isinstance(tensor, ProgressiveTensor)
    np.testing.assert_array_equal(tensor.codes, REFERENCE["qserve_q4"])
    np.testing.assert_array_equal(tensor.group_scale, REFERENCE["qserve_s2"])
    np.testing.assert_array_equal(tensor.zero, REFERENCE["qserve_z"])
    np.testing.assert_array_equal(tensor.channel_scale, REFERENCE["qserve_s1"])


def test_learned_clipping_of_omniquant_before_and_after_training() -> None:
    """200 steps of Adam in float64 and in float32 end with the same codes."""
    rule = replace(OMNIQUANT, symmetric=False)
    spec = WeightSpec(Integer(4, signed=False), PerGroup(32), rule)
    start = plain(LearnedClipping(steps=0, keep_best=False), spec)
    assert_same_codes(start, REFERENCE["lwc_int4_init"])
    trained = LearnedClipping(keep_best=False, normalize=False)
    logits, _ = trained.learn(W.astype(np.float64), spec, KNOWN)
    np.testing.assert_allclose(logits.high.ravel(), REFERENCE["lwc_int4_up"][:, 0], atol=5e-5)
    np.testing.assert_allclose(logits.low.ravel(), REFERENCE["lwc_int4_low"][:, 0], atol=5e-5)
    # A logit that is off by 5e-5 moves its end, and so the scale, by at most a quarter of that.
    assert_same_codes(plain(trained, spec), REFERENCE["lwc_int4_trained"], 1.25e-5 / ULP)


def test_tables_of_squeezellm_are_a_fixed_point_and_ours_are_better_in_each_row() -> None:
    """scikit-learn's k-means starts at random; ours finds the least error there is."""
    table, places = REFERENCE["sqllm_lut"].astype(np.float64), REFERENCE["sqllm_idx"]
    np.testing.assert_array_equal(RowCodebooks(table).encode(W), places)
    mass = np.square(X.astype(np.float64)).mean(axis=0)
    for row, centre in np.ndindex(table.shape):
        members = (places[row] == centre) & (mass > 0)
        if members.any():
            mean = np.average(W[row, members].astype(np.float64), weights=mass[members])
            assert table[row, centre] == pytest.approx(mean, rel=1e-4, abs=1e-7)
    theirs = np.take_along_axis(table, places.astype(np.int64), axis=1)
    spec = WeightSpec(Integer(4), PerChannel(), ScaleRule(stored=DType.F64))
    ours = LookupTable().quantize(W, spec, KNOWN).tensor.decode(DType.F64)
    errors = [(mass * np.square(each - W)).sum(axis=1) for each in (ours, theirs)]
    assert (errors[0] <= errors[1]).all()
    assert errors[0].sum() < 0.9 * errors[1].sum()
