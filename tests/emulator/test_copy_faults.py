"""Copies between GM and UB: values, paddings and every documented limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.emulator.vector_kernel import build, make_kernel, result, run, source

N = 1024

ROWS = """
TPipe pipe;
TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
pipe.InitBuffer(through, 1, 65536);
const uint16_t rows = sizesGm.GetValue(0);
const uint32_t columns = sizesGm.GetValue(1), gap = sizesGm.GetValue(2);
LocalTensor<float> t = through.AllocTensor<float>();
DataCopyExtParams in;
in.blockCount = rows;
in.blockLen = columns * sizeof(float);
in.srcStride = gap * sizeof(float);
in.dstStride = 1;
DataCopyPadExtParams<float> padding;
padding.isPad = true;
padding.rightPadding = (8 - columns % 8) % 8;
padding.paddingValue = -1.0f;
DataCopyPad(t, xGm, in, padding);
through.EnQue(t);
t = through.DeQue<float>();
DataCopyExtParams out;
out.blockCount = rows;
out.blockLen = (columns + padding.rightPadding) * sizeof(float);
out.srcStride = 1;
DataCopyPad(yGm, t, out);
through.FreeTensor(t);
"""


def rows_kernel() -> Kernel:
    arguments = [
        source(DType.F32, "x", N),
        source(DType.I32, "sizes", 8),
        result(DType.F32, "y", 2 * N),
    ]
    return make_kernel("copy_rows", ROWS, arguments)


@given(rows=st.integers(0, 10), columns=st.integers(0, 60), gap=st.integers(0, 30))
def test_padded_rows(rows: int, columns: int, gap: int) -> None:
    x = np.arange(N, dtype=np.float32)
    sizes = np.array([rows, columns, gap, 0, 0, 0, 0, 0], np.int32)
    (y,) = run(rows_kernel(), x, sizes)
    width = -(-columns // 8) * 8
    expected = np.full((rows, width), -1, np.float32)
    for row in range(rows):
        expected[row, :columns] = x[row * (columns + gap) :][:columns]
    np.testing.assert_array_equal(y[: rows * width], expected.ravel())
    assert np.all(y[rows * width :] == 0)


COPY = """
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, 256);
DataCopy(t, xGm, 256);
SetFlag<HardEvent::MTE2_MTE3>(0);
WaitFlag<HardEvent::MTE2_MTE3>(0);
DataCopy(yGm, t, 256);
PipeBarrier<PIPE_ALL>();
"""
IN = "DataCopy(t, xGm, 256);"
OUT = "DataCopy(yGm, t, 256);"


def copy_kernel(body: str) -> Kernel:
    return make_kernel("copy", body, [source(DType.F32, "x", 256), result(DType.F32, "y", 256)])


@pytest.mark.parametrize(
    ("old", "new", "kind", "text"),
    [
        (IN, "DataCopy(t, xGm, 250);", "arguments", "DataCopy of 1000 bytes: the chip rounds down"),
        (IN, "DataCopy(t, xGm[8], 256);", "bounds", "read of bytes 0 to 1024 of a tensor of 992"),
        (IN, "DataCopy(t[8], xGm, 256);", "bounds", "write of bytes 0 to 1024 of a tensor of 992"),
        (IN, "DataCopy(t[1], xGm, 8);", "alignment", "must be a multiple of 32 bytes"),
        (IN, "DataCopy(t, yGm, 256);", "poison", "byte 0 of argument `y`, which this launch has"),
        (OUT, "DataCopy(xGm, t, 256);", "direction", "write to an argument declared `in`"),
        (OUT, "DataCopy(yGm, t, DataCopyParams(4096, 1, 0, 0));", "arguments", "not in 0..4095"),
        ("VECIN, 0, 256", "VECCALC, 0, 256", "arguments", "this one is VECCALC"),
        ("VECIN, 0, 256", "A1, 0, 256", "arguments", "a vector core has no such memory"),
        ("VECIN, 0, 256", "VECIN, 8, 256", "alignment", "the address must be a multiple of 32"),
        ("VECIN, 0, 256", "VECIN, 188160, 256", "capacity", "but 188160 are usable"),
        ("InitSocState();", "InitSocState();\nxGm.SetGlobalBuffer((__gm__ float*)x_ + 128);",
         "bounds", "leaves the argument of 1024 bytes"),
        ("InitSocState();", "InitSocState();\nxGm.SetGlobalBuffer((__gm__ float*)64);", "bounds",
         "a global address outside every argument"),
    ],
)  # fmt: skip
def test_fault(old: str, new: str, kind: str, text: str) -> None:
    assert old in COPY
    with pytest.raises(EmulatorError) as caught:
        run(copy_kernel(COPY.replace(old, new)), np.ones(256, np.float32))
    assert caught.value.kind == kind
    assert text in caught.value.text


def test_random_padding_is_poison() -> None:
    body = COPY.replace(
        IN,
        "DataCopyExtParams p(1, 40, 0, 0, 0);\n"
        "DataCopyPadExtParams<float> pad(false, 0, 2, 0.0f);\nDataCopyPad(t, xGm, p, pad);",
    ).replace(OUT, "DataCopy(yGm, t, 16);")
    with pytest.raises(EmulatorError, match="reads UB byte 40, which was never written"):
        run(copy_kernel(body), np.ones(256, np.float32))


@pytest.mark.parametrize(
    ("name", "expected"), [("SetAtomicAdd", 3), ("SetAtomicMax", 2), ("SetAtomicMin", 1)]
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F16, DType.I32])
def test_atomic_stores(name: str, expected: int, dtype: DType) -> None:
    cpp = {DType.F32: "float", DType.BF16: "bfloat16_t", DType.F16: "half", DType.I32: "int32_t"}
    body = COPY.replace("float", cpp[dtype])
    body = body.replace(OUT, f"{name}<{cpp[dtype]}>();\n{OUT}\nSetAtomicNone();")
    arguments = (source(dtype, "x", 256), KernelArgument("y", dtype, Direction.IN_OUT, 256))
    kernel = make_kernel("accumulate", body, arguments)
    y = np.full(256, 2, dtype.numpy)
    build(kernel).launch([np.ones(256, dtype.numpy), y])
    np.testing.assert_array_equal(y.astype(np.float32), expected)


def test_atomic_addition_to_what_nobody_set_is_poison() -> None:
    body = COPY.replace(OUT, f"SetAtomicAdd<float>();\n{OUT}\nSetAtomicNone();")
    with pytest.raises(EmulatorError, match="byte 0 of argument `y`, which this launch has not"):
        run(copy_kernel(body), np.ones(256, np.float32))


INSIDE = """
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, 1024);
DataCopy(t, xGm, 1024);
PipeBarrier<PIPE_ALL>();
LocalTensor<int32_t> q(TPosition::VECIN, 8192, 8);
DataCopy(q, sizesGm, 8);
PipeBarrier<PIPE_ALL>();
DataCopyParams p(q.GetValue(2), q.GetValue(3), q.GetValue(4), q.GetValue(5));
DataCopy(t[q.GetValue(0) * 8], t[q.GetValue(1) * 8], p);
PipeBarrier<PIPE_ALL>();
DataCopy(yGm, t, 1024);
PipeBarrier<PIPE_ALL>();
"""


def copied_inside(x: np.ndarray, sizes: list[int]) -> np.ndarray | None:
    """Return ``x`` after the copy; None where the order of its blocks would change the result."""
    to, start, count, length, source_gap, target_gap = sizes
    blocks, written = x.reshape(-1, 8).copy(), set[int]()
    for i in range(count):
        reads = [start + i * (length + source_gap) + j for j in range(length)]
        writes = [to + i * (length + target_gap) + j for j in range(length)]
        if written & {*reads} or (reads != writes and {*reads} & {*writes}):
            return None
        blocks[writes] = blocks[reads]
        written |= {*writes}
    return blocks.ravel()


@given(
    sizes=st.tuples(
        st.integers(0, 20),
        st.integers(0, 20),
        st.integers(1, 5),
        st.integers(1, 4),
        st.integers(0, 4),
        st.integers(0, 4),
    )
)
def test_copies_inside_ub_may_not_overlap_in_part(sizes: tuple[int, ...]) -> None:
    arguments = [
        source(DType.F32, "x", N),
        source(DType.I32, "sizes", 8),
        result(DType.F32, "y", N),
    ]
    kernel = make_kernel("copy_inside", INSIDE, arguments)
    x = np.arange(N, dtype=np.float32)
    told = np.array([*sizes, 0, 0], np.int32)
    expected = copied_inside(x, list(sizes))
    if expected is None:
        with pytest.raises(EmulatorError, match=r"its destination in part|earlier piece"):
            run(kernel, x, told)
    else:
        np.testing.assert_array_equal(run(kernel, x, told)[0], expected)
