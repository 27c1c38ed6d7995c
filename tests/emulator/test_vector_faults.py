"""Argument rules of the vector calls, each broken once in a kernel that is right."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.emulator.vector_kernel import make_kernel, result, run, source

N = 512


def kernel(call: str) -> Kernel:
    body = f"""
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, {N});
LocalTensor<float> o(TPosition::VECOUT, 4096, {N});
LocalTensor<half> h(TPosition::VECOUT, 8192, {N});
LocalTensor<uint8_t> bits(TPosition::VECCALC, 12288, {N});
LocalTensor<uint32_t> u(TPosition::VECIN, 0, {N});
DataCopy(t, xGm, {N});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
Duplicate(o, 0.0f, {N});
{call}
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(yGm, o, {N});
PipeBarrier<PIPE_ALL>();
"""
    return make_kernel("vector", body, [source(DType.F32, "x", N), result(DType.F32, "y", N)])


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        ("Adds(o, t, 1.0f, -1);", "arguments", "Adds: count -1"),
        (f"Adds(o, t, 1.0f, {N + 1});", "bounds", "read of bytes 0 to 2052 of a tensor of 2048"),
        ("Adds(o[4], t, 1.0f, 8);", "alignment", "must be a multiple of 32 bytes"),
        ("Adds(o, o[8], 1.0f, 64);", "arguments", "overlap in part"),
        ("Cast(o, o.ReinterpretCast<half>(), RoundMode::CAST_NONE, 64);", "arguments",
         "overlap in part"),
        ("Adds(o, t, 1.0f, (uint64_t)65, 1, UnaryRepeatParams());", "arguments", "not in 1..64"),
        ("Adds(o, t, 1.0f, (uint64_t)0, 1, UnaryRepeatParams());", "arguments", "not in 1..64"),
        ("Adds(o, t, 1.0f, (uint64_t)64, 9, UnaryRepeatParams());", "bounds",
         "of a tensor of 2048"),
        ("Adds(o[8], o, 1.0f, (uint64_t)64, 2, UnaryRepeatParams());", "arguments",
         "source and destination of a repeat, at other places"),
        ("Adds(o[64], o, 1.0f, (uint64_t)64, 2, UnaryRepeatParams());", "arguments",
         "is read by a repeat after an earlier repeat wrote it"),
        ("Add(o, o, t, (uint64_t)64, 4, BinaryRepeatParams(1, 1, 1, 0, 0, 8));", "arguments",
         "is read by a repeat after an earlier repeat wrote it"),
        ("ShiftLeft(u, u, 33u, 8);", "arguments", "the amount is not in 0..32"),
        ("Compares(bits, t, 1.0f, CMPMODE::LT, 60);", "arguments", "not a multiple of 256 bytes"),
        ("Select(o, bits, t, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);", "poison",
         "Select mask reads UB byte 12288"),
        ("Select(o, bits, t, t, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);", "arguments",
         "mode 1 takes"),
        ("Brcb(o, t, 1, BrcbRepeatParams(0, 8));", "arguments", "dstBlkStride 0 is undefined"),
        ("ReduceSum(h, h, h, 64);", "poison", "ReduceSum reads UB byte 8192"),
        ("ReduceMax(o[1], t, t, 64, true);", "alignment", "must be a multiple of 8 bytes"),
        ("Sort32(o, t, u, 256);", "arguments", "repeatTime 256 is not in 0..255"),
        ("SetAtomicAdd<float>();", "poison", "byte 0 of argument `y`"),
        ("SetVectorMask<float, MaskMode::NORMAL>(0, 0);\n"
         "Add<float, false>(o, t, t, (uint64_t)64, 4, BinaryRepeatParams(1, 1, 1, 8, 8, 8));",
         "arguments", "Add: the mask register (SetVectorMask) selects no element"),
        ("uint64_t none[2] = {0, 0};\n"
         "Add(o, t, t, none, 1, BinaryRepeatParams(1, 1, 1, 8, 8, 8));",
         "arguments", "Add: the mask selects no element"),
        ("const uint16_t lengths[4] = {4, 4, 4, 4};\n"
         "MrgSort(t[32], MrgSortSrcList<float>(t[0], t[8], t[16], t[24]),\n"
         "MrgSort4Info(lengths, false, 15, 2));",
         "arguments", "source (UB byte 0) and destination (UB byte 128) overlap"),
    ],
)  # fmt: skip
def test_fault(call: str, kind: str, text: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(kernel(call), np.ones(N, np.float32))
    assert text in caught.value.text
    assert caught.value.kind == kind


def test_accumulating_into_the_second_source_is_the_documented_exception() -> None:
    x = np.arange(N, dtype=np.float32)
    call = "Add(o, t, o, (uint64_t)64, 8, BinaryRepeatParams(1, 1, 1, 0, 8, 0));"
    (y,) = run(kernel(call), x)
    np.testing.assert_array_equal(y[:64], x.reshape(8, 64).sum(0))


@pytest.mark.parametrize(
    "call",
    [
        "Adds(o, t, 1.0f, 0);",
        "Adds(o, t, 1.0f, (uint64_t)64, 0, UnaryRepeatParams());",
        "Cast(h, t, RoundMode::CAST_RINT, 0);",
        "Duplicate(o, 1.0f, 0);",
        "ReduceSum(o, t, t, 0);",
        "Sort32(o, t, u, 0);",
        "Compares(bits, t, 1.0f, CMPMODE::LT, 0);",
    ],
)
def test_nothing_to_do_is_no_instruction(call: str) -> None:
    (y,) = run(kernel(call), np.ones(N, np.float32))
    assert not np.any(y)


def test_an_atomic_mode_left_on_is_a_leak() -> None:
    body = "InitSocState();\nSetAtomicAdd<float>();\nPipeBarrier<PIPE_ALL>();"
    with pytest.raises(EmulatorError, match="an atomic mode is still on") as caught:
        run(make_kernel("left_on", body, [result(DType.F32, "y", 8)]))
    assert caught.value.kind == "leak"
