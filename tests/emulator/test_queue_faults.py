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
