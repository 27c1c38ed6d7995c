"""LoadData from GM: fractals straight into L0A, or into L1 in either direction."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.cube_kernel import (
    CAPACITY,
    FIXPIPE,
    LOAD_B,
    MMAD,
    QUANT,
    SIZES,
    build,
    cube_kernel,
    launch,
    nd_to_nz,
    pass_to,
    random_values,
)

# a holds Zz fractals.
TO_L0A = (
    SIZES
    + nd_to_nz("b1", "bGm", "n", "k")
    + pass_to("MTE2", "MTE1")
    + LOAD_B
    + """\
    LoadData2DParams load;
    load.repeatTimes = Tiles(m, 16) * Tiles(k, K0);
    load.srcStride = 1;
    LoadData(a2, aGm, load);
"""
    + pass_to("MTE1", "M")
    + pass_to("MTE2", "M")
    + MMAD
    + pass_to("M", "FIX")
)

# q: startIndex, repeatTimes, srcStride, dstGap, addrMode.
TO_L1 = f"""\
    Fill(a1, InitConstValueParams<T>(1, {CAPACITY} * sizeof(T) / 32, 0, T(7.0f)));
    PipeBarrier<PIPE_MTE2>();
    LoadData2DParams load;
    load.startIndex = q[0];
    load.repeatTimes = q[1];
    load.srcStride = q[2];
    load.dstGap = q[3];
    load.addrMode = q[4];
    LoadData(a1, aGm, load);
    Pass<HardEvent::MTE2_MTE3>();
    DataCopy(cGm, a1, {CAPACITY});
"""
DTYPES = (DType.F32, DType.BF16)


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    quant = FIXPIPE.format(quant=QUANT[DType.F32])
    to_l0a = [cube_kernel(f"l0a_{each.value}", TO_L0A + quant, each) for each in DTYPES]
    to_l1 = [cube_kernel(f"l1_{each.value}", TO_L1, each, out=each) for each in DTYPES]
    return build(*to_l0a, *to_l1)


def to_zz(a: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return ``a [m, k]`` as fractals, row tiles outside."""
    k0 = 32 // a.dtype.itemsize
    rows, columns = -(-len(a) // 16), -(-a.shape[1] // k0)
    padded = np.zeros((rows * 16, columns * k0), a.dtype)
    padded[: len(a), : a.shape[1]] = a
    return padded.reshape(rows, 16, columns, k0).transpose(0, 2, 1, 3).ravel()


@pytest.mark.parametrize("dtype", DTYPES)
@given(m=st.integers(2, 90), k=st.integers(2, 90))
def test_fractals_go_to_l0a(kernels: dict[str, BuiltKernel], dtype: DType, m: int, k: int) -> None:
    a = random_values(np.random.default_rng(m), (m, k), dtype)
    identity = np.eye(k, dtype=dtype.numpy)
    c = launch(kernels[f"l0a_{dtype.value}"], to_zz(a), identity, (m, k, k), DType.F32)
    np.testing.assert_array_equal(c[: m * k].reshape(m, k), a.astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@given(count=st.integers(0, 8), stride=st.integers(0, 4), gap=st.integers(0, 4), back=st.booleans())
def test_fractals_go_to_l1_forwards_and_backwards(
    kernels: dict[str, BuiltKernel],
    dtype: DType,
    *,
    count: int,
    stride: int,
    gap: int,
    back: bool,
) -> None:
    size = 512 // dtype.bytes
    values = random_values(np.random.default_rng(count), (CAPACITY // size, size), dtype)
    start = stride * count if back else 1
    q = (start, count, stride, gap, int(back))
    c = launch(kernels[f"l1_{dtype.value}"], values, values, q, dtype).reshape(-1, size)
    expected = np.full_like(values, 7)
    for i in range(count):
        expected[i * (gap + 1)] = values[start + (-i if back else i) * stride]
    np.testing.assert_array_equal(c, expected)


def test_a_load_before_the_tensor_is_reported(kernels: dict[str, BuiltKernel]) -> None:
    values = np.zeros(CAPACITY, np.float32)
    with pytest.raises(EmulatorError, match="bounds"):
        launch(kernels["l1_f32"], values, values, (2, 4, 1, 0, 1), DType.F32)
