"""Kernels that would end the process, or never end: each is a fault, and the next launch works."""

import ctypes
import itertools
import multiprocessing
import platform
import signal
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.vector_kernel import build, make_kernel, result, source

N = 64
ON_X86 = platform.machine() == "x86_64"

# The threads of pytest-xdist hold no lock that the child needs.
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

SET_ALL = "for (int id = 0; id < 6; ++id) SetFlag<HardEvent::MTE2_V>(id);"
WAIT_ALL = "for (int id = 0; id < 6; ++id) WaitFlag<HardEvent::MTE2_V>(id);"

# One kernel for all, told by x[0] what to do.
CHOICES = {
    "right": "",
    "null": "__gm__ float* p = nullptr; yGm.SetValue(0, *p);",
    "wild": "((__gm__ float*)x_)[1ull << 40] = 1;",
    "divide": "const int32_t z = xGm.GetValue(1); yGm.SetValue(0, float(7 / z));",
    "overflow": "const int32_t z = xGm.GetValue(2); yGm.SetValue(0, float((z - 2147483647) / z));",
    "frame": "LargeFrame();",
    "recursion": "yGm.SetValue(0, float(Deep(0, xGm.GetValue(2))));",
    "throw": "throw 5;",
    "throw_text": 'throw std::runtime_error("a reason");',
    "memory": "std::vector<float> v(size_t{1} << 45); yGm.SetValue(0, v[5]);",
    "assertion": '__assert_fail("z", "file", 1, "f");',
    "writes": "for (int k = 0; k < 3000000; ++k) yGm.SetValue(0, float(k));",
    "swallow": "try { yGm.SetValue(100, 1.0f); } catch (...) {} for (;;) yGm.SetValue(0, 1.0f);",
    "loop": "for (volatile int k = 0; k == 0;) {}",
    "reads": "while (xGm.GetValue(3) == 0.0f) {}",
    "flags": "for (;;) { SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0); }",
    "set_null": f"{SET_ALL} __gm__ float* p = nullptr; yGm.SetValue(0, *p);",
    "set_throw": f"{SET_ALL} throw 5;",
    "set_loop": f"{SET_ALL} for (volatile int k = 0; k == 0;) {{}}",
    "set_flags": f"{SET_ALL} for (;;) {{ {WAIT_ALL} {SET_ALL} }}",
    "set_bounds": f"{SET_ALL} yGm.SetValue(100, 1.0f);",
    "set_left": SET_ALL,
    "all_events": f"{SET_ALL} {WAIT_ALL}",
}
BEFORE = """
#include <cassert>
#include <stdexcept>
#include <vector>
__attribute__((noinline)) void LargeFrame() {
volatile float big[300000];
big[0] = 1;
}
int Deep(int depth, int last) {
volatile int room[100];
room[depth % 100] = depth;
return depth == last ? 0 : Deep(depth + 1, last) + room[depth * 7 % 100];
}
"""
ARGUMENTS = [source(DType.F32, "x", N), result(DType.F32, "y", N)]


def chooser() -> BuiltKernel:
    branches = [
        f"if (choice == {number}) {{\n{text}\n}}" for number, text in enumerate(CHOICES.values())
    ]
    begin = ["const int choice = xGm.GetValue(0);", "yGm.SetValue(2, 3.0f);"]
    body = [*begin, *branches, "yGm.SetValue(1, 2.0f);"]
    return build(make_kernel("choose", "\n".join(body), ARGUMENTS, before=BEFORE))


def launch(choice: str, y: np.ndarray | None = None) -> np.ndarray:
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32) if y is None else y
    x[:3] = [list(CHOICES).index(choice), 0, -1]
    chooser().launch([x, y])
    return y


def line_of(text: str) -> int:
    lines = chooser().kernel.source.splitlines()
    return 1 + next(i for i, line in enumerate(lines) if text in line)


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    built = chooser()
    before, built.patience = built.patience, 0.3
    yield
    built.patience = before


@pytest.mark.parametrize(
    ("choice", "kind", "text"),
    [
        ("null", "host-signal", "raised SIGSEGV (a pointer outside the memory of the process)"),
        ("wild", "host-signal", "raised SIGSEGV (a pointer outside the memory of the process)"),
        ("frame", "host-signal", "the kernel uses more than 512 KiB of stack"),
        ("recursion", "host-signal", "the kernel uses more than 512 KiB of stack"),
        ("assertion", "host-signal", "raised SIGABRT"),
        ("throw", "host-exception", "the kernel threw a C++ exception"),
        ("throw_text", "host-exception", "the kernel threw a C++ exception: a reason"),
        ("memory", "host-memory", "the host has not the memory the kernel asks for"),
        ("swallow", "bounds", "write of bytes 400 to 404 of a tensor of 256 bytes"),
        ("loop", "endless", "no core has written anything in 300 ms of computing"),
        ("reads", "endless", "no core has written anything in 300 ms of computing"),
        ("flags", "endless", "no core has written anything in 300 ms of computing"),
    ],
)
def test_is_a_fault(choice: str, kind: str, text: str) -> None:
    for _ in range(2):
        with pytest.raises(EmulatorError) as caught:
            launch(choice)
        assert caught.value.kind == kind
        assert text in caught.value.text
        assert (caught.value.block, caught.value.core) == (0, "AIV")
    assert launch("right")[1] == 2


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ("set_null", "host-signal"),
        ("set_throw", "host-exception"),
        ("set_loop", "endless"),
        ("set_flags", "endless"),
        ("flags", "endless"),
        ("set_bounds", "bounds"),
        ("set_left", "event"),
    ],
)
def test_events_of_an_aborted_launch_are_forgotten(choice: str, kind: str) -> None:
    for _ in range(3):
        with pytest.raises(EmulatorError) as caught:
            launch(choice)
        assert caught.value.kind == kind
        assert launch("all_events")[1] == 2


@pytest.mark.skipif(not ON_X86, reason="other hosts divide by zero without a signal")
@pytest.mark.parametrize("choice", ["divide", "overflow"])
def test_a_division_that_has_no_result_is_a_fault(choice: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        launch(choice)
    line = line_of(CHOICES[choice])
    assert "raised SIGFPE" in caught.value.text
    assert f"its last call is in line {line}" in caught.value.text
    assert (caught.value.kind, caught.value.line) == ("host-signal", line)
    assert launch("right")[1] == 2


@pytest.mark.parametrize("call", ["std::exit(0)", "std::abort()", "_exit(3)", "quick_exit(1)"])
def test_calls_that_end_the_process_do_not_compile(call: str) -> None:
    before = "#include <cstdlib>\n#include <unistd.h>\n"
    body = f"if (xGm.GetValue(0) == 1) {call};"
    with pytest.raises(GraphError, match="a kernel ends by returning") as caught:
        build(make_kernel("leaver", body, ARGUMENTS, before=before))
    assert caught.value.code == "kernel-does-not-compile"


@pytest.fixture
def ctrl_c() -> Iterator[list[int]]:
    """Have SIGINT interrupt, as in a terminal, but once: who keeps the key pressed breaks no test.

    A run in the background inherits that it is ignored.
    """
    pressed: list[int] = []

    def interrupt(number: int, _: object) -> None:
        pressed.append(number)
        if len(pressed) == 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    yield pressed
    assert signal.signal(signal.SIGINT, before) is interrupt


@pytest.mark.parametrize("choice", ["loop", "reads", "set_loop", "set_flags"])
def test_ctrl_c_ends_an_endless_launch(choice: str, ctrl_c: list[int]) -> None:
    chooser().patience = 30  # of computing, after which it is endless
    y, ended = np.zeros(N, np.float32), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def press() -> None:
        while not ended.wait(0.05):
            if y[2] == 3:  # the kernel has begun
                signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            launch(choice, y)
    finally:
        ended.set()
        thread.join()
    assert ctrl_c
    assert launch("all_events")[1] == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the timer of Linux")
def test_ticks_that_interrupt_each_other_are_no_endless_loop() -> None:
    """As on a busy machine, where the one of the timer comes while another one is handled."""
    chooser().patience = 60
    main, ended = threading.main_thread().ident, threading.Event()
    assert main is not None

    def tick() -> None:
        for gap in itertools.cycle(range(100)):
            if ended.wait(1e-5):
                return
            signal.pthread_kill(main, signal.SIGURG)
            for _ in range(gap):  # the second one comes while the first one reads the clock
                pass
            signal.pthread_kill(main, signal.SIGURG)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        assert launch("writes")[1] == 2
    finally:
        ended.set()
        thread.join()


@forks
def test_a_thread_and_a_child_process_are_watched_too() -> None:
    launch("right")
    faults: list[EmulatorError] = []

    def in_thread() -> None:
        for choice in ("loop", "frame"):
            try:
                launch(choice)
            except EmulatorError as error:
                faults.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join(600)
    assert [each.kind for each in faults] == ["endless", "host-signal"]
    child = multiprocessing.get_context("fork").Process(target=_child)
    child.start()
    child.join(600)
    assert child.exitcode == 7


def _child() -> None:
    try:
        launch("loop")
    except EmulatorError as error:
        raise SystemExit(7 if error.kind == "endless" else 1) from error


@forks
def test_a_signal_of_python_is_still_that_of_python() -> None:
    launch("right")
    child = multiprocessing.get_context("fork").Process(target=ctypes.string_at, args=(0,))
    child.start()
    child.join(600)
    assert child.exitcode == -signal.SIGSEGV


@pytest.mark.parametrize("blocks", [0, -1, 65536, 10**7, 2**32 + 1])
def test_a_number_of_blocks_that_no_launch_has_is_refused(blocks: int) -> None:
    x, y = np.zeros(N, np.float32), np.zeros(N, np.float32)
    with pytest.raises(GraphError, match=f"{blocks} blocks are not in 1..65535") as caught:
        chooser().launch([x, y], blocks=blocks)
    assert caught.value.code == "launch-arguments"
