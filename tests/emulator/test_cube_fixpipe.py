"""Fixpipe: strides, formats, conversions, atomic sums, and the way back to L1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel
from tests.emulator.cube_kernel import (
    CAPACITY,
    LOAD_A,
    LOAD_B,
    MMAD,
    SIZES,
    build,
    cube_kernel,
    launch,
    nd_to_nz,
    ordered_product,
    pass_to,
    random_values,
)

PRODUCT = (
    SIZES
    + nd_to_nz("a1", "aGm", "m", "k")
    + nd_to_nz("b1", "bGm", "n", "k")
    + pass_to("MTE2", "MTE1")
    + LOAD_A
    + LOAD_B
    + pass_to("MTE1", "M")
    + MMAD
    + pass_to("M", "FIX")
)

# q[3] = mSize, q[4] = nSize, q[5] = dstStride, q[6] = reluEn; q[7] bits of the scale
FIX = """\
    FixpipeParamsV220 fix;
    fix.mSize = q[3];
    fix.nSize = q[4];
    fix.srcStride = Tiles(m, 16) * 16;
    fix.dstStride = q[5];
    fix.reluEn = q[6] != 0;
    fix.quantPre = QuantMode_t::@QUANT@;
@MORE@
    Fixpipe<Out, C, @FORMAT@>(cGm, l0c, fix);
"""


def fix(quant: str, layout: str, more: str = "") -> str:
    return FIX.replace("@QUANT@", quant).replace("@FORMAT@", layout).replace("@MORE@", more)


SCALE = "    fix.deqScalar = (uint64_t)(uint32_t)q[7] | (uint64_t)(uint32_t)q[8] << 32;\n"
MATRICES = """\
    fix.ndNum = q[7];
    fix.srcNdStride = q[8];
    fix.dstNdStride = q[9];
"""

# L0C -> L1 as bfloat16, then times the identity in b behind q[3] elements.
CHAIN = """\
    LocalTensor<T> y1(TPosition::A1, 262144, 131072 / sizeof(T));
    FixpipeParamsV220 back;
    back.mSize = m;
    back.nSize = Tiles(n, 16) * 16;
    back.srcStride = Tiles(m, 16) * 16;
    back.dstStride = Tiles(m, 16) * 16;
    back.quantPre = QuantMode_t::F322BF16;
    Fixpipe<T, C, CFG_NZ>(y1, l0c, back);
    Pass<HardEvent::FIX_MTE1>();
    Pass<HardEvent::FIX_M>();
    Pass<HardEvent::M_MTE1>();
    Pass<HardEvent::MTE1_MTE2>();
    Nd2NzParams nd;
    nd.ndNum = 1;
    nd.nValue = n;
    nd.dValue = n;
    nd.srcDValue = n;
    nd.dstNzC0Stride = Tiles(n, 16) * 16;
    nd.dstNzNStride = 1;
    DataCopy(b1, bGm[q[3]], nd);
    Pass<HardEvent::MTE2_MTE1>();
    for (uint32_t i = 0; i < Tiles(m, 16); ++i) {
        LoadData2DParams load;
        load.repeatTimes = Tiles(n, K0);
        load.srcStride = Tiles(m, 16);
        LoadData(a2[i * Tiles(n, K0) * FRACTAL], y1[i * FRACTAL], load);
    }
    LoadData2DParams identity;
    identity.repeatTimes = Tiles(n, K0) * Tiles(n, 16);
    identity.srcStride = 1;
    LoadData(b2, b1, identity);
    Pass<HardEvent::MTE1_M>();
    mmad.n = n;
    mmad.k = n;
    Mmad(l0c, a2, b2, mmad);
    Pass<HardEvent::M_FIX>();
    FixpipeParamsV220 out;
    out.mSize = m;
    out.nSize = n;
    out.srcStride = Tiles(m, 16) * 16;
    out.dstStride = n;
    Fixpipe<Out, C, CFG_ROW_MAJOR>(cGm, l0c, out);
"""

KERNELS = {
    "nd_f32": (fix("NoQuant", "CFG_ROW_MAJOR"), DType.F32, DType.F32),
    "nd_bf16": (fix("F322BF16", "CFG_ROW_MAJOR"), DType.F32, DType.BF16),
    "nd_f16": (fix("F322F16", "CFG_ROW_MAJOR"), DType.F32, DType.F16),
    "nd_i32": (fix("NoQuant", "CFG_ROW_MAJOR"), DType.I8, DType.I32),
    "nz_f32": (fix("NoQuant", "CFG_NZ"), DType.F32, DType.F32),
    "nz_bf16": (fix("F322BF16", "CFG_NZ"), DType.F32, DType.BF16),
    "nz_i8": (fix("QF322B8_PRE", "CFG_NZ", SCALE), DType.F32, DType.I8),
    "split_f32": (fix("NoQuant", "CFG_NZ", "    fix.isChannelSplit = true;"), DType.F32, DType.F32),
    "matrices": (fix("NoQuant", "CFG_ROW_MAJOR", MATRICES), DType.F32, DType.F32),
    "quant_i8": (fix("QF322B8_PRE", "CFG_ROW_MAJOR", SCALE), DType.F32, DType.I8),
    "requant_i8": (fix("REQ8", "CFG_ROW_MAJOR", SCALE), DType.I8, DType.I8),
    "dequant_f16": (fix("DEQF16", "CFG_ROW_MAJOR", SCALE), DType.I8, DType.F16),
    "atomic": (
        "    SetAtomicAdd<Out>();\n"
        + fix("NoQuant", "CFG_ROW_MAJOR")
        + "    Fixpipe<Out, C, CFG_ROW_MAJOR>(cGm, l0c, fix);\n    SetAtomicNone();\n",
        DType.F32,
        DType.F32,
    ),
    "chain": (CHAIN, DType.BF16, DType.F32),
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    return build(
        *(
            cube_kernel(f"fix_{name}", PRODUCT + text, dtype, out=out)
            for name, (text, dtype, out) in KERNELS.items()
        )
    )


def product(
    kernels: dict[str, BuiltKernel], name: str, shape: tuple[int, int, int], more: tuple[int, ...]
) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return ``c`` and the product before the conversion."""
    _, dtype, out = KERNELS[name]
    m, n, k = shape
    random = np.random.default_rng(m + n)
    a, b = random_values(random, (m, k), dtype), random_values(random, (n, k), dtype)
    c = launch(kernels[f"fix_{name}"], a, b, (*shape, *more), out)
    return c, ordered_product(a, b)


def bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


@pytest.mark.parametrize("name", ["nd_f32", "nd_bf16", "nd_f16", "nd_i32"])
@given(m=st.integers(2, 60), n=st.integers(1, 60), pitch=st.integers(0, 40), relu=st.integers(0, 1))
def test_rows_go_to_their_stride(
    kernels: dict[str, BuiltKernel], name: str, m: int, n: int, pitch: int, relu: int
) -> None:
    c, expected = product(kernels, name, (m, n, 9), (m, n, n + pitch, relu))
    if relu:
        expected = np.maximum(expected, 0)
    out = KERNELS[name][2]
    rows = c[: m * (n + pitch)].reshape(m, n + pitch)
    np.testing.assert_array_equal(rows[:, :n], expected.astype(out.numpy))
    gaps = np.concatenate([rows[:, n:].ravel(), c[m * (n + pitch) :]])
    assert np.all(np.isnan(gaps) if out.is_float else gaps == -1)


@pytest.mark.parametrize(("name", "columns"), [("nz_f32", 16), ("nz_bf16", 16), ("split_f32", 8)])
@given(m=st.integers(2, 40), blocks=st.integers(1, 6), gap=st.integers(0, 20))
def test_nz_output_keeps_column_blocks(
    kernels: dict[str, BuiltKernel], name: str, columns: int, m: int, blocks: int, gap: int
) -> None:
    n = blocks * columns
    out = KERNELS[name][2]
    row_bytes = columns * out.bytes
    stride = m * row_bytes // 32 + gap
    c, expected = product(kernels, name, (m, n, 9), (m, n, stride, 0))
    for block in range(blocks):
        start = block * stride * 32 // out.bytes
        got = c[start : start + m * columns].reshape(m, columns)
        wanted = expected[:, block * columns : (block + 1) * columns].astype(out.numpy)
        np.testing.assert_array_equal(got, wanted)


def quantise(values: NDArray[np.generic], scale: float, offset: int) -> NDArray[np.int8]:
    scaled = np.float32(values) * np.float32(scale)
    nine = np.rint(np.clip(scaled, -256, 255)).astype(np.int32) + offset
    return np.clip(nine, -128, 127).astype(np.int8)


@pytest.mark.parametrize("name", ["quant_i8", "requant_i8"])
@given(m=st.integers(2, 30), n=st.integers(1, 40), offset=st.integers(0, 100))
def test_quantisation_rounds_to_nine_bits_before_the_offset(
    kernels: dict[str, BuiltKernel], name: str, m: int, n: int, offset: int
) -> None:
    scale = 1.5 if name == "quant_i8" else 2.0**-8
    high = offset << 5 | 1 << 14
    c, expected = product(kernels, name, (m, n, 9), (m, n, n, 0, bits(scale), high))
    np.testing.assert_array_equal(c[: m * n].reshape(m, n), quantise(expected, scale, offset))


def test_eight_bit_nz_output_merges_pairs_of_blocks(kernels: dict[str, BuiltKernel]) -> None:
    m, n = 32, 48
    c, expected = product(kernels, "nz_i8", (m, n, 9), (m, n, m, 0, bits(1.5), 1 << 14))
    wanted = quantise(expected, 1.5, 0)
    np.testing.assert_array_equal(c[: m * 32].reshape(m, 32), wanted[:, :32])
    np.testing.assert_array_equal(c[m * 32 : m * 48].reshape(m, 16), wanted[:, 32:])


def test_scales_keep_ten_bits_of_mantissa(kernels: dict[str, BuiltKernel]) -> None:
    scale = float(np.float32(1 / 3))
    kept = float((np.float32(scale).view(np.int32) & -8192).view(np.float32))
    c, expected = product(kernels, "dequant_f16", (5, 7, 9), (5, 7, 7, 0, bits(scale), 0))
    wanted = (np.float32(expected) * np.float32(kept)).astype(np.float16)
    np.testing.assert_array_equal(c[:35].reshape(5, 7), wanted)


@given(m=st.integers(1, 16), count=st.integers(1, 4), step=st.integers(200, 300))
def test_several_matrices_in_one_call(
    kernels: dict[str, BuiltKernel], m: int, count: int, step: int
) -> None:
    # L0C holds one column block of 64 rows; every 16-row tile is a matrix of its own.
    c, expected = product(kernels, "matrices", (64, 12, 9), (m, 12, 12, 0, count, 1, step))
    for matrix in range(count):
        got = c[matrix * step : matrix * step + m * 12].reshape(m, 12)
        np.testing.assert_array_equal(got, expected[matrix * 16 : matrix * 16 + m])


def test_atomic_results_are_added_to_gm(kernels: dict[str, BuiltKernel]) -> None:
    random = np.random.default_rng(0)
    a, b = random_values(random, (20, 9), DType.F32), random_values(random, (11, 9), DType.F32)
    start = np.full(CAPACITY, 100, np.float32)
    c = launch(kernels["fix_atomic"], a, b, (20, 11, 9, 20, 11, 11), DType.F32, start=start)
    product = ordered_product(a, b)
    product = product.astype(np.float32)
    expected = (start[:220].reshape(20, 11) + product) + product
    np.testing.assert_array_equal(c[:220].reshape(20, 11), expected)


@given(m=st.integers(2, 40), n=st.integers(1, 60))
def test_results_return_to_l1(kernels: dict[str, BuiltKernel], m: int, n: int) -> None:
    random = np.random.default_rng(m)
    a, b = random_values(random, (m, 7), DType.BF16), random_values(random, (n, 7), DType.BF16)
    packed = np.concatenate([b.ravel(), np.eye(n).ravel().astype(b.dtype)])
    c = launch(kernels["fix_chain"], a, packed, (m, n, 7, b.size), DType.F32)
    narrow = ordered_product(a, b).astype(b.dtype).astype(np.float32)
    np.testing.assert_array_equal(c[: m * n].reshape(m, n), narrow)
