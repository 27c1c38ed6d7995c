"""Mmad beyond a plain product: accumulation, bias, GEMV."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel
from tests.emulator.cube_kernel import (
    FIXPIPE,
    LOAD_A,
    LOAD_B,
    QUANT,
    SIZES,
    build,
    cube_kernel,
    launch,
    nd_to_nz,
    ordered_product,
    pass_to,
    random_values,
)

# K in two steps of q[3] and the rest, both from the same L0 tiles loaded anew.
TWO_STEPS = """\
    const uint32_t m = q[0];
    const uint32_t n = q[1];
    const uint32_t depths[2] = {uint32_t(q[3]), uint32_t(q[2] - q[3])};
    for (uint32_t step = 0; step < 2; ++step) {
        const uint32_t k = depths[step];
        Nd2NzParams nd;
        nd.ndNum = 1;
        nd.dValue = k;
        nd.srcDValue = q[2];
        nd.dstNzNStride = 1;
        nd.nValue = m;
        nd.dstNzC0Stride = Tiles(m, 16) * 16;
        DataCopy(a1, aGm[step * depths[0]], nd);
        nd.nValue = n;
        nd.dstNzC0Stride = Tiles(n, 16) * 16;
        DataCopy(b1, bGm[step * depths[0]], nd);
        Pass<HardEvent::MTE2_MTE1>();
@LOAD@
        Pass<HardEvent::MTE1_M>();
        MmadParams mmad;
        mmad.m = m;
        mmad.n = n;
        mmad.k = k;
        mmad.cmatrixInitVal = step == 0;
        Mmad(l0c, a2, b2, mmad);
        PipeBarrier<PIPE_M>();
        Pass<HardEvent::M_MTE1>();
        Pass<HardEvent::MTE1_MTE2>();
    }
"""

# The bias lies in a behind q[3] elements, as floats; it goes GM -> L1 -> BT.
BIAS = """\
    GlobalTensor<C> biasGm;
    biasGm.SetGlobalBuffer((__gm__ C *)a + q[3], 256);
    LocalTensor<C> bias1(TPosition::C1, 262144, 256);
    LocalTensor<C> bias2(TPosition::C2, 0, 256);
    DataCopy(bias1, biasGm, 256);
"""

MMAD_BIAS = """\
    DataCopyParams toTable;
    toTable.blockCount = 1;
    toTable.blockLen = 16;
    DataCopy(bias2, bias1, toTable);
    Pass<HardEvent::MTE1_M>();
    MmadParams mmad;
    mmad.m = m;
    mmad.n = n;
    mmad.k = k;
    Mmad(l0c, a2, b2, bias2, mmad);
"""

# A is a vector: contiguous in L0A, 512 bytes per "fractal".
GEMV_LOAD = """\
    LoadData2DParams vector;
    vector.repeatTimes = Tiles(k, FRACTAL);
    vector.srcStride = 1;
    LoadData(a2, a1, vector);
"""
GEMV = (
    SIZES
    + "    DataCopy(a1, aGm, Tiles(k, FRACTAL) * FRACTAL);\n"
    + nd_to_nz("b1", "bGm", "n", "k")
    + pass_to("MTE2", "MTE1")
    + GEMV_LOAD
    + LOAD_B
    + pass_to("MTE1", "M")
    + """\
    MmadParams mmad;
    mmad.m = 1;
    mmad.n = n;
    mmad.k = k;
    Mmad(l0c, a2, b2, mmad);
"""
    + pass_to("M", "FIX")
)

DTYPES = (DType.F32, DType.BF16, DType.F16, DType.I8)


def result_of(dtype: DType) -> DType:
    return DType.I32 if dtype is DType.I8 else DType.F32


def two_steps(dtype: DType) -> str:
    fix = FIXPIPE.format(quant=QUANT[result_of(dtype)])
    return TWO_STEPS.replace("@LOAD@", LOAD_A + LOAD_B) + pass_to("M", "FIX") + fix


def with_bias(dtype: DType) -> str:
    return (
        SIZES
        + BIAS
        + nd_to_nz("a1", "aGm", "m", "k")
        + nd_to_nz("b1", "bGm", "n", "k")
        + pass_to("MTE2", "MTE1")
        + LOAD_A
        + LOAD_B
        + MMAD_BIAS
        + pass_to("M", "FIX")
        + FIXPIPE.format(quant=QUANT[result_of(dtype)])
    )


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    texts = [
        (f"{name}_{dtype.value}", text, dtype)
        for dtype in DTYPES
        for name, text in (
            ("steps", two_steps(dtype)),
            ("bias", with_bias(dtype)),
            ("gemv", GEMV + FIXPIPE.format(quant=QUANT[result_of(dtype)])),
        )
    ]
    return build(*(cube_kernel(name, text, dtype) for name, text, dtype in texts))


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    m=st.integers(2, 70),
    n=st.integers(1, 70),
    first=st.integers(1, 60),
    second=st.integers(1, 60),
)
def test_splitting_k_changes_no_bit(
    kernels: dict[str, BuiltKernel], dtype: DType, m: int, n: int, first: int, second: int
) -> None:
    k = first + second
    random = np.random.default_rng(m * n)
    a, b = random_values(random, (m, k), dtype), random_values(random, (n, k), dtype)
    built = kernels[f"steps_{dtype.value}"]
    c = launch(built, a, b, (m, n, k, first), result_of(dtype))
    np.testing.assert_array_equal(c[: m * n].reshape(m, n), ordered_product(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=st.integers(2, 32), n=st.integers(1, 100), k=st.integers(1, 32))
def test_bias_is_what_the_sums_begin_with(
    kernels: dict[str, BuiltKernel], dtype: DType, m: int, n: int, k: int
) -> None:
    random = np.random.default_rng(n)
    a, b = random_values(random, (m, k), dtype), random_values(random, (n, k), dtype)
    wide = result_of(dtype).numpy
    bias = random.integers(-1000, 1000, 256).astype(wide)
    offset = 4096 // wide.itemsize
    packed = np.zeros(4096 + bias.nbytes, np.uint8)
    packed[: a.nbytes] = a.view(np.uint8).ravel()
    packed[4096:] = bias.view(np.uint8)
    built = kernels[f"bias_{dtype.value}"]
    c = launch(built, packed.view(dtype.numpy), b, (m, n, k, offset), result_of(dtype))
    start = np.broadcast_to(bias[:n], (m, n))
    np.testing.assert_array_equal(c[: m * n].reshape(m, n), ordered_product(a, b, start))


@pytest.mark.parametrize("dtype", DTYPES)
@given(n=st.integers(1, 60), k=st.integers(1, 250))
def test_one_row_is_read_as_a_vector(
    kernels: dict[str, BuiltKernel], dtype: DType, n: int, k: int
) -> None:
    random = np.random.default_rng(k)
    a, b = random_values(random, (1, k), dtype), random_values(random, (n, k), dtype)
    built = kernels[f"gemv_{dtype.value}"]
    c = launch(built, a, b, (1, n, k), result_of(dtype))
    np.testing.assert_array_equal(c[:n], ordered_product(a, b)[0])
