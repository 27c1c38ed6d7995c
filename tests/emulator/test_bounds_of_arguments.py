"""Offsets and sizes that wrap around, and tensors that reach into another argument."""

import numpy as np
import pytest

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.vector_kernel import build, make_kernel, result, source

N = 64
LEAVES = f"leaves the argument `x` of {4 * N} bytes"
LEAVES_Y = f"leaves the argument `y` of {4 * N} bytes"
TOO_LONG = f"of a tensor of {4 * N} bytes"

# What one kernel does, told by x[0]; and what the fault says. The argument y follows x in memory.
FAULTS = {
    "write": ("yGm.SetValue(1ull << 62, 3);", TOO_LONG),
    "read": ("t.SetValue(0, xGm.GetValue(1ull << 62));", TOO_LONG),
    "view": ("yGm[1ull << 62].SetValue(0, 3);", "of a tensor of 0 bytes"),
    "copy": ("DataCopy(yGm[1ull << 62], t, 8);", "of a tensor of 0 bytes"),
    "copy_in": ("DataCopy(t, xGm[1ull << 62], 8);", "of a tensor of 0 bytes"),
    "view_of_view": (
        "onY[1ull << 60][1ull << 60].SetValue(0, 3);",
        "a global address outside every argument",
    ),
    "wrapped_view": ("onY[1ull << 62].SetValue(0, 3);", "of a tensor of 0 bytes"),
    "neighbour": (f"onX.SetValue({N} + 5, 7);", LEAVES),
    "neighbour_copy": (f"DataCopy(t, onX[{N}], 8);", LEAVES),
    "neighbour_part": (f"DataCopy(t, onX[{N} - 4], 8);", f"leaves the argument of {4 * N} bytes"),
    "neighbour_sized": (f"large.SetValue({N} + 5, 7);", LEAVES),
    "size_wraps": ("endless.SetValue(2000, 7);", LEAVES_Y),
    "set_size": ("t.SetSize(1u << 30); Duplicate(t, 1.0f, 60000);", "access up to byte 240000"),
    "static_size": (
        "LocalTensor<float> all(TPosition::VECIN, 0, 1u << 30);",
        "a static tensor of bytes 0 to 4294967295",
    ),
    "gather_mask": (
        "uint64_t c = 0; GatherMaskParams p(255, 65535, 65535, 0); t.SetSize(1u << 29);\n"
        "GatherMask(u, t, (uint8_t)7, false, 0u, p, c);",
        "access up to byte",
    ),
}
RIGHT = {
    "unsized_read": f"onY.SetValue(0, onX.GetValue({N} - 1) + onX.GetSize());",
    "sized_larger": f"onY.SetValue(0, large.GetValue({N} - 1));",
}
BEGIN = f"""
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, 256);
LocalTensor<float> u(TPosition::VECOUT, 2048, 256);
GlobalTensor<float> onX, onY, large, endless;
onX.SetGlobalBuffer((__gm__ float*)x_);
onY.SetGlobalBuffer((__gm__ float*)y_);
large.SetGlobalBuffer((__gm__ float*)x_, {4 * N});
endless.SetGlobalBuffer((__gm__ float*)y_, 1ull << 62);
Duplicate(t, 1.0f, 256);
PipeBarrier<PIPE_ALL>();
const int choice = xGm.GetValue(0);
"""


def chooser() -> BuiltKernel:
    texts = [*(text for text, _ in FAULTS.values()), *RIGHT.values()]
    branches = [f"if (choice == {i}) {{\n{text}\n}}" for i, text in enumerate(texts)]
    body = "\n".join([BEGIN, *branches, "PipeBarrier<PIPE_ALL>();"])
    arguments = [source(DType.F32, "x", N), result(DType.F32, "y", N)]
    return build(make_kernel("bounds", body, arguments))


def launch(choice: str) -> np.ndarray:
    room = np.zeros(2 * N, np.float32)
    x, y = room[:N], room[N:]
    x[0], x[N - 1] = [*FAULTS, *RIGHT].index(choice), 5
    chooser().launch([x, y])
    return y


@pytest.mark.parametrize("choice", FAULTS)
def test_an_access_outside_its_argument_is_a_fault(choice: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        launch(choice)
    assert FAULTS[choice][1] in caught.value.text
    assert caught.value.kind == ("capacity" if choice == "static_size" else "bounds")


@pytest.mark.parametrize("choice", RIGHT)
def test_a_tensor_without_a_size_reaches_to_the_end_of_its_argument(choice: str) -> None:
    assert launch(choice)[0] == 5
