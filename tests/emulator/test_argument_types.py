"""Calls with other than the documented argument types must not compile."""

import subprocess
from pathlib import Path

import pytest

from ascendfx.runtime.emulator import Checks
from ascendfx.runtime.emulator.kernel_cache import default_cache_dir
from ascendfx.runtime.emulator.library import build_library
from ascendfx.runtime.emulator.toolchain import KERNEL_FLAGS

DECLARATIONS = """
#include "kernel_operator.h"
using namespace AscendC;
LocalTensor<half> h;
LocalTensor<float> f;
LocalTensor<bfloat16_t> b;
LocalTensor<int32_t> i;
LocalTensor<uint32_t> u;
LocalTensor<uint16_t> u16;
LocalTensor<uint8_t> u8;
GlobalTensor<float> gf;
GlobalTensor<half> gh;
TPipe pipe;
uint64_t kept;
const UnaryRepeatParams unary;
const BinaryRepeatParams binary;
"""

RIGHT = (
    "Muls(h, h, half(2.5), 64);",
    "Muls(f, f, 2.5f, 64);",
    "Duplicate(f, 0.0f, 64);",
    "Duplicate<float>(f, 0, 64);",
    "Cast(f, b, RoundMode::CAST_NONE, 64);",
    "Adds(i, i, 1, 64);",
    "Add(f, f, f, 64, 2, binary);",
    "Exp(f, f, 64, 2, unary);",
    "Gather(f, f, u, 0, 64);",
    "GatherMask(h, h, u16, true, 64, {1, 1, 8, 0}, kept);",
    "Compare(u8, f, f, CMPMODE::LT, 64);",
    "Compares(u8, h, half(1), CMPMODE::GE, 128);",
    "Select(f, u8, f, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);",
    "Sort32(f, f, u, 1);",
    "CrossCoreSetFlag<2, PIPE_FIX>(8);",
    "if ASCEND_IS_AIC { PipeBarrier<PIPE_M>(); }",
    "if ASCEND_IS_AIV { PipeBarrier<PIPE_V>(); } else { return; }",
    "CreateVecIndex(i, 0, 64);",
    "ReduceMax(f, f, f, 64, true);",
    "Muls(h, h, half(2) * half(3) + half(1), 64);",
    "Transpose(h, h);",
)

WRONG = (
    "Muls(h, h, 2.5, 64);",
    "Muls(h, h, 2.5f, 64);",
    "Muls(f, f, 2, 64);",
    "Muls(f, f, 2.5, 64);",
    "Adds(f, f, half(1), 64);",
    "Add(f, f, h, 64);",
    "Add(b, b, b, 64);",
    "Add(u, u, u, 64);",
    "Div(i, i, i, 64);",
    "Exp(i, i, 64);",
    "Exp(b, b, 64);",
    "And(i, i, i, 64);",
    "Duplicate(f, 0, 64);",
    "Duplicate(h, 0.0f, 64);",
    "Cast(h, b, RoundMode::CAST_RINT, 64);",
    "Cast(u8, f, RoundMode::CAST_RINT, 64);",
    "Cast(f, b, CAST_NONE, 64);",
    "Cast(f, b, 0, 64);",
    "Gather(f, f, i, 0, 64);",
    "GatherMask(f, f, u16, true, 64, {1, 1, 8, 0}, kept);",
    "Compare(u16, f, f, CMPMODE::LT, 64);",
    "Compares(u8, f, 1, CMPMODE::LT, 64);",
    "Select(i, u8, i, 0, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);",
    "Sort32(f, f, i, 1);",
    "ReduceSum(i, i, i, 64);",
    "DataCopy(f, gh, 64);",
    "DataCopyPad(f, gf, DataCopyExtParams(), DataCopyPadExtParams<half>());",
    "CrossCoreSetFlag<3, PIPE_FIX>(8);",
    "CrossCoreSetFlag<2, PIPE_S>(8);",
    "CrossCoreSetFlag<2, PIPE_ALL>(8);",
    "PipeBarrier<PIPE_S>();",
    "SetFlag(0);",
    "if (ASCEND_IS_AIC) { }",
    "SetAtomicAdd<uint32_t>();",
    "float x = b.GetValue(0);",
    "Adds(f, f, 1.0f, 64, 7);",
    "Transpose(f, f);",
)


def compiles(statement: str, folder: Path) -> bool:
    library = build_library(default_cache_dir(), Checks())
    (folder / "call.cpp").write_text(f"{DECLARATIONS}\nvoid call() {{ {statement} }}\n")
    command = [library.compiler, *KERNEL_FLAGS, *library.flags, f"-I{library.headers}"]
    command += ["-fsyntax-only", "call.cpp"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_documented_calls_compile(tmp_path: Path) -> None:
    assert compiles("\n".join(f"{{ {each} }}" for each in RIGHT), tmp_path)


@pytest.mark.parametrize("statement", WRONG)
def test_other_types_do_not_compile(statement: str, tmp_path: Path) -> None:
    assert not compiles(statement, tmp_path)
