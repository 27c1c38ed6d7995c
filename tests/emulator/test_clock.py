"""The 32-bit clock of the race detector: it starts again between launches, and one launch has an
end.

Tests reach the first two fields of ``emulator::Machine`` (machine.h) by the name of the variable.
"""

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.vector_kernel import build, make_kernel, result, source

N = 64
FIRST_RESTART = 2**31 + 1
LAST = 2**32 - 2**16

DOUBLE = f"""
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, {N});
LocalTensor<float> d(TPosition::VECOUT, 1024, {N});
DataCopy(t, xGm, {N});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
Add(d, t, t, {N});
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(yGm, d, {N});
PipeBarrier<PIPE_ALL>();
"""


def kernel(name: str, body: str) -> BuiltKernel:
    return build(make_kernel(name, body, [source(DType.F32, "x", N), result(DType.F32, "y", N)]))


def launch(built: BuiltKernel) -> np.ndarray:
    x, y = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    built.launch([x, y])
    return y


def machine(built: BuiltKernel) -> "ctypes.Array[ctypes.c_uint32]":
    library = ctypes.CDLL(str(built.library.path))
    return (ctypes.c_uint32 * 2).in_dll(library, "_ZN8emulator7machineE")


@pytest.fixture
def double() -> Iterator[BuiltKernel]:
    built = kernel("double_up", DOUBLE)
    yield built
    machine(built)[:] = [FIRST_RESTART, LAST]
    launch(built)  # restarts the clock, so that the next test finds no stamp of this one


def test_launches_go_on_after_the_clock_has_come_to_its_end(double: BuiltKernel) -> None:
    words = machine(double)
    for start in (2**31 - 3, 2**31, FIRST_RESTART, 2**32 - 3, 2**32 - 1):
        words[0] = start
        for _ in range(3):
            np.testing.assert_array_equal(launch(double), 2 * np.arange(N))
    assert words[0] < 1000


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("DataCopy(t, xGm, 64);\n", "poison"),  # of UB
        ("Add(d, t, t, 64);\n", "poison"),
        ("WaitFlag<HardEvent::V_MTE3>(0);\n", "race"),
    ],
)
def test_what_was_written_before_a_restart_does_not_count(
    double: BuiltKernel, line: str, kind: str
) -> None:
    assert line in DOUBLE
    broken = kernel(f"without_{kind}_{len(line)}", DOUBLE.replace(line, ""))
    machine(double)[0] = 2**31  # its stamps are the highest before a restart
    launch(double)
    with pytest.raises(EmulatorError) as caught:
        launch(broken)
    assert caught.value.kind == kind


def test_global_memory_of_before_a_restart_does_not_count(double: BuiltKernel) -> None:
    reads_back = kernel("read_back", DOUBLE.replace("xGm", "yGm"))
    machine(double)[0] = 2**31
    launch(double)
    assert machine(double)[0] > 2**31
    with pytest.raises(EmulatorError, match="of argument `y`, which this launch has not written"):
        launch(reads_back)
    assert machine(double)[0] < 1000


def test_a_launch_that_uses_the_clock_up_is_a_fault(double: BuiltKernel) -> None:
    endless = kernel("endless", "for (uint64_t i = 0; i != ~0ull; ++i) yGm.SetValue(i % 64, 1);\n")
    words = machine(double)
    words[:] = [FIRST_RESTART, 100_000]
    with pytest.raises(EmulatorError, match="issued 100000 instructions on one core") as caught:
        launch(endless)
    assert (caught.value.kind, caught.value.core) == ("endless", "AIV")
    words[:] = [FIRST_RESTART, LAST]
    np.testing.assert_array_equal(launch(double), 2 * np.arange(N))
