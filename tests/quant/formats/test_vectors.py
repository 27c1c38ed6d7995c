"""Tables and probes of reference packages, byte by byte."""

import numpy as np
import pytest

from ascendfx.quant_passes.formats.dfloat11 import DFloat11
from ascendfx.quant_passes.formats.float8 import E4M3FN, E5M2
from ascendfx.quant_passes.formats.hifloat8 import HiFloat8
from ascendfx.quant_passes.formats.normal_float4 import NF4
from ascendfx.quant_passes.packing import nibbles_high_first
from ascendfx.quant_passes.scaling.granularity import PerGroup
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from tests.quant.reference_vectors import vectors

BYTES = np.arange(256).astype(np.uint8)


def test_hifloat8_decodes_all_bytes_as_en_dtypes() -> None:
    np.testing.assert_array_equal(HiFloat8().decode(BYTES), vectors("hifloat8")["value"])


def test_hifloat8_encodes_the_probes_as_en_dtypes() -> None:
    data = vectors("hifloat8")
    np.testing.assert_array_equal(HiFloat8("infinity").encode(data["probe"]), data["byte"])


def test_hifloat8_saturates_where_en_dtypes_overflows() -> None:
    data = vectors("hifloat8")
    codes = HiFloat8().encode(data["probe"])
    differs = codes != data["byte"]
    overflows = np.isfinite(data["probe"]) & (np.abs(data["probe"]) >= 1.25 * 2**15)
    np.testing.assert_array_equal(differs, overflows)
    assert set(codes[overflows]) == {0x6E, 0xEE}


@pytest.mark.parametrize("kind", [E4M3FN, E5M2])
def test_float8_decodes_all_bytes_as_ml_dtypes(kind: type[E4M3FN | E5M2]) -> None:
    name = kind.__name__.lower()
    decoded = kind().decode(BYTES)
    np.testing.assert_array_equal(decoded, vectors("float8")[f"{name}_value"])
    zeros = np.signbit(decoded[decoded == 0])
    assert zeros.tolist() == [False, True]


@pytest.mark.parametrize("kind", [E4M3FN, E5M2])
def test_float8_encodes_the_probes_in_both_conventions(kind: type[E4M3FN | E5M2]) -> None:
    data, name = vectors("float8"), kind.__name__.lower()
    probe = data[f"{name}_probe"]
    np.testing.assert_array_equal(kind("ieee").encode(probe), data[f"{name}_ml_dtypes"])
    np.testing.assert_array_equal(kind().encode(probe), data[f"{name}_clamped"])


def test_torch_saturates_e4m3fn_and_overflows_e5m2() -> None:
    data = vectors("float8")
    np.testing.assert_array_equal(E4M3FN().encode(data["e4m3fn_probe"]), data["e4m3fn_torch"])
    number = ~np.isnan(data["e5m2_probe"])  # torch writes NaN as 0x7F
    codes = E5M2("ieee").encode(data["e5m2_probe"])
    np.testing.assert_array_equal(codes[number], data["e5m2_torch"][number])
    assert data["e5m2_torch"][~number].tolist() == [0x7F]
    assert np.isnan(E5M2().decode(data["e5m2_torch"][~number])).all()


def test_nf4_as_bitsandbytes() -> None:
    data = vectors("round_to_nearest")
    tensor = round_to_nearest(data["W"], NF4, PerGroup(64))
    packed = nibbles_high_first.pack(tensor.codes)
    np.testing.assert_array_equal(packed, data["nf4_packed"])
    np.testing.assert_array_equal(tensor.affine.scale.ravel(), data["nf4_absmax"])
    np.testing.assert_array_equal(tensor.decode(), data["nf4_dequant"])


def test_dfloat11_streams_as_dahuffman() -> None:
    data = vectors("dfloat11")
    streams = DFloat11().encode(data["w_bits"])
    for name in ("encoded_exponent", "sign_mantissa", "output_positions", "gaps", "luts"):
        got = getattr(streams, name)
        assert got.dtype == data[name].dtype
        np.testing.assert_array_equal(got, data[name], err_msg=name)
    np.testing.assert_array_equal(DFloat11().decode(streams).view(np.int16), data["w_bits"])
