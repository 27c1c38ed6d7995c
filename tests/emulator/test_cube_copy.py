"""ND to NZ copies with every stride, GM -> L1 -> GM, against the documented address arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.cube_kernel import CAPACITY, build, cube_kernel, launch

# q: ndNum, nValue, dValue, srcNdMatrixStride, srcDValue, dstNzC0Stride, dstNzNStride,
# dstNzMatrixStride. L1 is filled with `mark` first, so that all of it can be read back.
BODY = """\
    Fill(a1, InitConstValueParams<T>(1, CAPACITY * sizeof(T) / 32, 0, T(@MARK@)));
    PipeBarrier<PIPE_MTE2>();
    Nd2NzParams nd;
    nd.ndNum = q[0];
    nd.nValue = q[1];
    nd.dValue = q[2];
    nd.srcNdMatrixStride = q[3];
    nd.srcDValue = q[4];
    nd.dstNzC0Stride = q[5];
    nd.dstNzNStride = q[6];
    nd.dstNzMatrixStride = q[7];
    DataCopy(a1, aGm, nd);
    Pass<HardEvent::MTE2_MTE3>();
    DataCopy(cGm, a1, CAPACITY);
""".replace("CAPACITY", str(CAPACITY))
MARK = 7.0

# q: blockCount, blockLen, srcGap, dstGap.
BLOCKS = """\
    Fill(a1, InitConstValueParams<T>(1, CAPACITY * sizeof(T) / 32, 0, T(@MARK@)));
    PipeBarrier<PIPE_MTE2>();
    DataCopyParams blocks;
    blocks.blockCount = q[0];
    blocks.blockLen = q[1];
    blocks.srcGap = q[2];
    blocks.dstGap = q[3];
    DataCopy(a1, aGm, blocks);
    Pass<HardEvent::MTE2_MTE3>();
    DataCopy(cGm, a1, CAPACITY);
""".replace("CAPACITY", str(CAPACITY))

# q: repeatTimes, blockNum, dstGap.
FILL = """\
    Fill(a1, InitConstValueParams<T>(1, CAPACITY * sizeof(T) / 32, 0, T(@MARK@)));
    PipeBarrier<PIPE_MTE2>();
    Fill(a1, InitConstValueParams<T>(q[0], q[1], q[2], T(3.0f)));
    Pass<HardEvent::MTE2_MTE3>();
    DataCopy(cGm, a1, CAPACITY);
""".replace("CAPACITY", str(CAPACITY))

DTYPES = (DType.F32, DType.BF16, DType.F16)


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    return build(
        *(
            cube_kernel(f"{name}_{dtype.value}", text.replace("@MARK@", "7.0f"), dtype, out=dtype)
            for dtype in DTYPES
            for name, text in (("nd", BODY), ("blocks", BLOCKS), ("fill", FILL))
        )
    )


def to_nz(values: NDArray[np.generic], q: tuple[int, ...]) -> NDArray[np.generic]:
    """Return L1 after the copy (asc-devkit, ND2NZ page): one element at a time."""
    count, rows, columns, matrix_stride, row_stride, c0_stride, n_stride, out_matrix = q
    k0 = 32 // values.dtype.itemsize
    l1 = np.full(CAPACITY, MARK, values.dtype)
    row, column = np.mgrid[:rows, : -(-columns // k0) * k0]
    for matrix in range(count):
        target = (column // k0 * c0_stride + row * n_stride) * k0 + column % k0
        source = np.minimum(matrix * matrix_stride + row * row_stride + column, CAPACITY - 1)
        moved = np.where(column < columns, values[source], 0)
        l1[matrix * out_matrix + target] = moved
    return l1


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_nd_to_nz_with_any_strides(
    kernels: dict[str, BuiltKernel], dtype: DType, data: st.DataObject
) -> None:
    draw = data.draw
    k0 = 32 // dtype.bytes
    count, rows, columns = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 20)),
        draw(st.integers(1, 40)),
    )
    row_stride = draw(st.integers(1, 60))
    matrix_stride = draw(st.integers(0, 200))
    blocks = -(-columns // k0)
    if draw(st.booleans()):  # column blocks outside, the usual order
        n_stride = draw(st.integers(1, 3))
        c0_stride = n_stride * rows + draw(st.integers(0, 5))
        size = c0_stride * blocks
    else:  # rows outside
        c0_stride = draw(st.integers(1, 3))
        n_stride = c0_stride * blocks + draw(st.integers(0, 5))
        size = n_stride * rows
    q = (count, rows, columns, matrix_stride, row_stride, c0_stride, n_stride, size * k0)
    values = np.random.default_rng(rows).standard_normal(CAPACITY).astype(dtype.numpy)
    if count * size * k0 > CAPACITY or size * k0 > 16384:
        return
    c = launch(kernels[f"nd_{dtype.value}"], values, values, q, dtype)
    np.testing.assert_array_equal(c, to_nz(values, q))


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    count=st.integers(0, 10),
    length=st.integers(0, 20),
    source_gap=st.integers(0, 20),
    target_gap=st.integers(0, 20),
)
def test_blocks_with_gaps(
    kernels: dict[str, BuiltKernel],
    dtype: DType,
    count: int,
    length: int,
    source_gap: int,
    target_gap: int,
) -> None:
    k0 = 32 // dtype.bytes
    values = np.random.default_rng(count).standard_normal(CAPACITY).astype(dtype.numpy)
    q = (count, length, source_gap, target_gap)
    c = launch(kernels[f"blocks_{dtype.value}"], values, values, q, dtype).reshape(-1, k0)
    expected = np.full((CAPACITY // k0, k0), MARK, dtype.numpy)
    for block in range(count):
        start = block * (length + source_gap)
        target = block * (length + target_gap)
        expected[target : target + length] = values.reshape(-1, k0)[start : start + length]
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(
    ("q", "message"),
    [
        ((1, 17, 40, 0, 40, 16, 1, 0), "over each other"),
        ((1, 16385, 8, 0, 8, 16384, 1, 0), "nValue = 16385 is outside 0..16384"),
        ((1, 16, 8, 0, 65536, 16, 1, 0), "srcDValue = 65536 is outside 1..65535"),
        ((1, 16, 8, 0, 8, 0, 1, 0), "dstNzC0Stride = 0 is outside 1..16384"),
        ((2, 16, 8, 0, 8, 16, 1, 100), "not a multiple of 32 bytes"),
        ((2, 16, 8, 5, 8, 16, 1, 120), "writes 2 matrices over each other"),
        ((2, 16, 8, 5, 8, 16, 1, 0), "writes 2 matrices over each other"),
        ((1, 16, 60, 0, 2000, 16, 1, 0), "bounds"),
        ((3, 1000, 8, 0, 8, 1000, 1, 16384), "bounds"),
    ],
)
def test_nd_to_nz_refuses(
    kernels: dict[str, BuiltKernel], q: tuple[int, ...], message: str
) -> None:
    values = np.zeros(CAPACITY, np.float32)
    with pytest.raises(EmulatorError, match=message):
        launch(kernels["nd_f32"], values, values, q, DType.F32)


@pytest.mark.parametrize("dtype", DTYPES)
@given(repeats=st.integers(0, 10), length=st.integers(0, 20), gap=st.integers(0, 20))
def test_fill_in_steps(
    kernels: dict[str, BuiltKernel], dtype: DType, repeats: int, length: int, gap: int
) -> None:
    values = np.zeros(CAPACITY, dtype.numpy)
    c = launch(kernels[f"fill_{dtype.value}"], values, values, (repeats, length, gap), dtype)
    expected = np.full((CAPACITY * dtype.bytes // 32, 32 // dtype.bytes), MARK, dtype.numpy)
    for repeat in range(repeats):
        start = repeat * (length + gap)
        expected[start : start + length] = 3
    np.testing.assert_array_equal(c, expected.ravel())


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_empty_copies_do_nothing(kernels: dict[str, BuiltKernel], zero: int) -> None:
    q = [1, 16, 8, 0, 8, 16, 1, 0]
    q[zero] = 0
    values = np.zeros(CAPACITY, np.float32)
    c = launch(kernels["nd_f32"], values, values, q, DType.F32)
    assert np.all(c == MARK)
