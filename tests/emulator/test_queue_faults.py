"""Faults of TPipe, TQue and TBuf, each planted in a kernel that is right."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.emulator.vector_kernel import make_kernel, result, run, source

N = 1024

DOUBLE = f"""
TPipe pipe;
TQue<TPosition::VECIN, 1> in;
TQue<TPosition::VECOUT, 1> out;
TBuf<TPosition::VECCALC> scratch;
pipe.InitBuffer(in, 2, 1024);
pipe.InitBuffer(out, 2, 1024);
pipe.InitBuffer(scratch, 1024);
LocalTensor<float> s = scratch.Get<float>();
for (uint32_t start = 0; start < {N}; start += 256) {{
LocalTensor<float> x = in.AllocTensor<float>();
DataCopy(x, xGm[start], 256);
in.EnQue(x);
x = in.DeQue<float>();
LocalTensor<float> y = out.AllocTensor<float>();
Muls(s, x, 1.0f, 256);
Add(y, x, s, 256);
in.FreeTensor(x);
out.EnQue(y);
y = out.DeQue<float>();
DataCopy(yGm[start], y, 256);
out.FreeTensor(y);
}}
"""

QUEUES = "\n".join(f"TQue<TPosition::VECIN, 1> q{i};" for i in range(9))
NINE = "\n".join(f"pipe.InitBuffer(q{i}, 1, 32);" for i in range(9))
MANY = "TBuf<TPosition::VECCALC> many[62];\nfor (auto& each : many) pipe.InitBuffer(each, 32);"


def kernel(body: str) -> Kernel:
    return make_kernel("double_rows", body, [source(DType.F32, "x", N), result(DType.F32, "y", N)])


def fault_of(old: str, new: str) -> EmulatorError:
    assert old in DOUBLE
    with pytest.raises(EmulatorError) as caught:
        run(kernel(DOUBLE.replace(old, new, 1)), np.ones(N, np.float32))
    return caught.value


def test_the_kernel_without_a_fault_doubles() -> None:
    x = np.arange(N, dtype=np.float32)
    (y,) = run(kernel(DOUBLE), x)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("old", "new", "kind", "text"),
    [
        ("in.EnQue(x);\n", "", "queue", "DeQue before EnQue: the queue is empty"),
        ("in.FreeTensor(x);\n", "", "queue", "AllocTensor: all 2 buffers of the queue are in use"),
        ("in.FreeTensor(x);", "in.FreeTensor(x); in.FreeTensor(x);", "queue", "was freed already"),
        ("in.FreeTensor(x);", "out.FreeTensor(x);", "queue", "does not come from this queue"),
        ("in.EnQue(x);", "in.EnQue(x); in.EnQue(x);", "queue", "in the queue already"),
        (
            "in.EnQue(x);",
            "in.EnQue(x); LocalTensor<float> z = in.AllocTensor<float>(); in.EnQue(z);",
            "queue",
            "the queue of depth 1 is full",
        ),
        ("out.EnQue(y);\n", "in.FreeTensor(x);\n", "queue", "FreeTensor: the tensor was freed"),
        ("Add(y, x, s, 256);\nin.FreeTensor(x);", "in.FreeTensor(x);\nAdd(y, x, s, 256);", "queue",
         "the tensor was used after FreeTensor"),
        ("pipe.InitBuffer(in, 2, 1024);", "", "queue", "the queue has no buffers"),
        ("pipe.InitBuffer(scratch, 1024);", "", "bounds",
         "write of bytes 0 to 1024 of a tensor of 0"),
        ("scratch.Get<float>();", "scratch.Get<float>(257);", "bounds",
         "of a buffer of 1024 bytes"),
        ("pipe.InitBuffer(in, 2, 1024);", "pipe.InitBuffer(in, 2, 100000);", "capacity",
         "but 188160 are usable"),
        ("pipe.InitBuffer(scratch, 1024);", f"pipe.InitBuffer(scratch, 1024); {MANY}", "capacity",
         "more than 64 buffers"),
        ("TPipe pipe;", f"TPipe pipe;\n{QUEUES}\n{NINE}", "queue", "it has event ids for 8"),
        ("TPipe pipe;", "InitSocState();\nTPipe pipe;", "arguments", "the two styles do not mix"),
        ("TPipe pipe;", "TPipe pipe;\nLocalTensor<float> t(TPosition::VECIN, 0, 8);", "arguments",
         "the two styles do not mix"),
    ],
)  # fmt: skip
def test_fault(old: str, new: str, kind: str, text: str) -> None:
    fault = fault_of(old, new)
    assert fault.kind == kind
    assert text in fault.text


@pytest.mark.parametrize(
    ("old", "state"), [("in.FreeTensor(x);\n", "allocated"), ("y = out.DeQue<float>();\n", "queue")]
)
def test_a_tensor_that_is_still_in_use_at_the_end_is_a_leak(old: str, state: str) -> None:
    once = DOUBLE.replace(f"start < {N}", "start < 256").replace("out.FreeTensor(y);\n", "")
    once = once.replace("DataCopy(yGm[start], y, 256);\n", "")
    with pytest.raises(EmulatorError, match=f"still .*{state}.* when the kernel ends") as caught:
        run(kernel(once.replace(old, "")), np.ones(N, np.float32))
    assert caught.value.kind == "leak"
    assert "AllocTensor" in caught.value.excerpt


SCALAR = """
TPipe pipe;
TQue<TPosition::VECIN, 1> in;
TQue<TPosition::VECOUT, 1> out;
TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
pipe.InitBuffer(in, 1, 64);
pipe.InitBuffer(out, 1, 64);
pipe.InitBuffer(through, 1, 64);
LocalTensor<float> x = in.AllocTensor<float>();
DataCopy(x, xGm, 16);
in.EnQue(x);
x = in.DeQue<float>();
LocalTensor<float> y = out.AllocTensor<float>();
for (uint32_t i = 0; i < 16; ++i) {
y.SetValue(i, 2.0f * x.GetValue(i));
}
in.FreeTensor(x);
out.EnQue(y);
y = out.DeQue<float>();
DataCopy(yGm, y, 16);
out.FreeTensor(y);
LocalTensor<float> z = through.AllocTensor<float>();
DataCopy(z, xGm[16], 16);
through.EnQue(z);
z = through.DeQue<float>();
for (uint32_t i = 0; i < 16; ++i) {
z.SetValue(i, 2.0f * z.GetValue(i));
}
through.EnQue(z);
z = through.DeQue<float>();
DataCopy(yGm[16], z, 16);
through.FreeTensor(z);
"""
"""The scalar pipe, which the compiler orders with the others, reads and writes."""


def test_the_scalar_kernel_without_a_fault_doubles() -> None:
    x = np.arange(N, dtype=np.float32)
    (y,) = run(kernel(SCALAR), x)
    np.testing.assert_array_equal(y[:32], 2 * x[:32])


@pytest.mark.parametrize(
    ("dropped", "text", "pipe"),
    [
        ("in.EnQue(x);\nx = in.DeQue<float>();\n", "a copy filled the tensor", "S"),
        ("x = in.DeQue<float>();\n", "a copy filled the tensor", "S"),
        ("out.EnQue(y);\ny = out.DeQue<float>();\n", "the tensor is copied out", "MTE3"),
        ("y = out.DeQue<float>();\n", "the tensor is copied out", "MTE3"),
        ("through.EnQue(z);\nz = through.DeQue<float>();\nfor", "a copy filled the tensor", "S"),
        (
            "through.EnQue(z);\nz = through.DeQue<float>();\nData",
            "the tensor is copied out",
            "MTE3",
        ),
    ],
)
def test_a_hand_over_that_the_scalar_pipe_needs_is_missed(
    dropped: str, text: str, pipe: str
) -> None:
    """Values are right, and no race tells it: the compiler orders the scalar pipe."""
    kept = dropped[dropped.rindex("\n") + 1 :]
    assert SCALAR.count(dropped) == 1
    with pytest.raises(EmulatorError, match="no EnQue and DeQue handed") as caught:
        run(kernel(SCALAR.replace(dropped, kept)), np.ones(N, np.float32))
    assert caught.value.kind == "queue"
    assert text in caught.value.text
    assert caught.value.pipe == pipe


def test_a_skipped_hand_over_is_a_race_although_the_values_are_right() -> None:
    fault = fault_of("x = in.DeQue<float>();\n", "")
    assert fault.kind == "race"
    assert "MTE2 DataCopy in line" in fault.text
    assert fault.pipe == "V"


def test_the_message_names_kernel_block_core_pipe_line_and_text() -> None:
    fault = fault_of("in.EnQue(x);\n", "")
    assert str(fault) == (
        "error[emulator-queue]: kernel `double_rows`, block 0, AIV, pipe S: "
        "DeQue before EnQue: the queue is empty\n"
        "  --> double_rows.cpp:20\n"
        "   |\n"
        "   | x = in.DeQue<float>();\n"
        "   |"
    )
