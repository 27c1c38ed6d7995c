"""The emitted runner: which launches it makes, what it counts, and that other threads go on."""

import ctypes
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import Kernel, KernelKind
from ascendfx.codegen.ascendc.launch_plan import (
    Argument,
    Buffer,
    Capacities,
    Launch,
    LaunchPlan,
    Place,
)
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.runner.emit_runner import VERSION, emit_runner, runner_file
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator.kernel_cache import default_cache_dir
from ascendfx.runtime.emulator.launchers import Counts, LauncherStruct, NullLauncher
from ascendfx.runtime.emulator.plan_runner import PlanRunner
from ascendfx.runtime.emulator.runner_tools import RunnerTools, runner_sources, tools_of_host
from ascendfx.runtime.executor.null import NullExecutor
from ascendfx.runtime.run_counts import RunCounts
from tests.golden_file import Golden
from tests.lowering.serving_programs import V3, Shape, serving_program

TARGET = find_target("ascend910b")
CAPACITIES = Capacities(1, 1, 1, 1, 1)
ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_uint32,
)


@pytest.fixture(scope="module")
def tools() -> RunnerTools:
    return tools_of_host(default_cache_dir())


@pytest.fixture(scope="module")
def tiny() -> LaunchPlan:
    sizes = {"rows": 4, "requests": 4, "context": 256, "blocks": 8}
    return lower_program(serving_program(Shape()), target=TARGET, name="decode", **sizes)[0]


@pytest.fixture(scope="module")
def large() -> LaunchPlan:
    """61 layers of V3."""
    sizes = {"rows": 32, "requests": 32, "context": 32768, "blocks": 4096}
    return lower_program(serving_program(V3), target=TARGET, name="decode", **sizes)[0]


class Recorder:
    """A launcher that notes every launch and fails at one of them."""

    def __init__(self, fail_at: int = -1) -> None:
        self.launches: list[tuple[int, list[int]]] = []
        self._fail_at = fail_at
        self._entry = ENTRY(self._launch)  # kept alive here
        self._counts = Counts()
        self.struct = LauncherStruct()
        self.struct.counts = ctypes.pointer(self._counts)
        self.struct.launch = ctypes.cast(self._entry, ctypes.c_void_p)

    def _launch(self, _: int, kernel: int, pointers: Sequence[int | None], count: int) -> int:
        if len(self.launches) == self._fail_at:
            return 7
        self._counts.launches += 1
        self.launches.append((kernel, [pointers[i] or 0 for i in range(count)]))
        return 0

    def error(self, step: int, launch: int, status: int) -> Exception:
        return RuntimeError(f"{step}/{launch}/{status}")


def wanted(plan: LaunchPlan, addresses: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return the launches of a step as the plan has them."""
    kernels = [kernel.name for kernel in plan.kernels]
    buffers = {buffer.name: at for buffer, at in zip(plan.buffers, addresses, strict=True)}
    return [
        (kernels.index(each.kernel), [buffers[a.buffer] + a.byte_offset for a in each.arguments])
        for each in plan.launches
    ]


def spread(plan: LaunchPlan) -> list[int]:
    """Return an address for each buffer, all of them beyond 32 bits."""
    return [(i + 1) << 36 for i in range(len(plan.buffers))]


@st.composite
def plans(draw: st.DrawFn) -> LaunchPlan:
    """Plans of any launches: nothing of them runs, so kernels have neither text nor arguments."""
    kernels = [f"k{i}" for i in range(draw(st.integers(1, 5)))]
    buffers = [f"b{i}" for i in range(draw(st.integers(1, 9)))]
    argument = st.builds(Argument, st.sampled_from(buffers), st.integers(0, 1 << 40))
    label = st.text(alphabet='ab /*\\\n"?>=', max_size=130)
    launch = st.builds(
        Launch, st.sampled_from(kernels), st.lists(argument, max_size=20).map(tuple), label
    )
    return LaunchPlan(
        name="any",
        buffers=tuple(Buffer(name, DType.I8, (1,), Place.ARENA) for name in buffers),
        launches=tuple(draw(st.lists(launch, max_size=12))),
        kernels=tuple(Kernel(name, "test", KernelKind.VECTOR, 1, (), "") for name in kernels),
        arena_bytes=1,
        capacities=CAPACITIES,
        results=(),
    )


@settings(max_examples=15)
@given(plans(), st.integers(0, 4))
def test_a_runner_makes_the_launches_of_its_plan_in_order(plan: LaunchPlan, steps: int) -> None:
    recorder, addresses = Recorder(), spread(plan)
    runner = PlanRunner(plan, addresses, recorder, tools_of_host(default_cache_dir()))
    runner.run(steps)
    assert recorder.launches == steps * wanted(plan, addresses)
    assert runner.counts == RunCounts(steps * len(plan.launches), 0, 0)


@pytest.mark.parametrize("fail_at", [0, 7, 49, 50, 133])
def test_nothing_is_launched_after_a_launch_that_failed(
    tools: RunnerTools, tiny: LaunchPlan, fail_at: int
) -> None:
    recorder, addresses = Recorder(fail_at), spread(tiny)
    runner = PlanRunner(tiny, addresses, recorder, tools)
    step, launch = divmod(fail_at, len(tiny.launches))
    with pytest.raises(RuntimeError, match=f"^{step}/{launch}/7$"):
        runner.run(5)
    assert recorder.launches == (5 * wanted(tiny, addresses))[:fail_at]


def test_61_layers_are_one_call(tools: RunnerTools, large: LaunchPlan) -> None:
    recorder, addresses = Recorder(), spread(large)
    PlanRunner(large, addresses, recorder, tools).run(2)
    assert len(large.launches) > 1500
    assert recorder.launches == 2 * wanted(large, addresses)
    nothing = NullExecutor({"decode": large})
    nothing.run_steps("decode", 1000)
    assert nothing.counts("decode") == RunCounts(1000 * len(large.launches), 0, 0)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("launcher->sync(launcher);", RunCounts(100, 0, 100)),
        ("launcher->copy(launcher, arguments[0], arguments[0], 4);", RunCounts(100, 100, 0)),
    ],
)
def test_a_runner_that_copied_or_waited_would_be_found(
    tools: RunnerTools, tiny: LaunchPlan, line: str, counts: RunCounts
) -> None:
    before = "        const int32_t status ="
    text = emit_runner(tiny)
    assert text.count(before) == 1
    changed = text.replace(before, f"        {line}\n{before}")
    runner = PlanRunner(tiny, spread(tiny), NullLauncher(tools), tools, changed)
    runner.run(2)
    assert runner.counts == counts


WAITING = """
#include "ascendfx_runner.h"
#include <chrono>

// Waits until another thread writes a one to the memory of the launch. Who holds the interpreter
// waits in vain, for ten minutes.
static int32_t Launch(const AscendfxLauncher*, uint32_t, void* const* pointers, uint32_t) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    auto* flags = static_cast<volatile int32_t*>(pointers[0]);
    flags[1] = 1;
    while (flags[0] == 0) {
        if (std::chrono::steady_clock::now() > end) return 1;
    }
    return 0;
}

extern "C" void ascendfx_launcher(AscendfxLauncher* launcher) { launcher->launch = Launch; }
"""


def test_other_threads_go_on_while_a_plan_runs(tools: RunnerTools) -> None:
    """If the interpreter were held, nobody could write the flag that the launch waits for."""
    plan = LaunchPlan(
        name="waiting",
        buffers=(Buffer("flags", DType.I32, (2,), Place.CONTROL),),
        launches=(Launch("k", (Argument("flags"),), "waits"),),
        kernels=(Kernel("k", "test", KernelKind.VECTOR, 1, (), ""),),
        arena_bytes=0,
        capacities=CAPACITIES,
        results=(),
    )
    launcher = NullLauncher(tools)
    tools.build("waiting_launcher.cpp", WAITING).ascendfx_launcher(ctypes.byref(launcher.struct))
    flags = (ctypes.c_int32 * 2)()
    runner = PlanRunner(plan, [ctypes.addressof(flags)], launcher, tools)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            runner.run(1)
        except BaseException as error:  # noqa: BLE001  # shown by the test
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not flags[1] and thread.is_alive():
        pass
    flags[0] = 1
    thread.join()
    assert not failed


def test_the_runner_of_a_tiny_plan_is_the_reviewed_one(tiny: LaunchPlan, golden: Golden) -> None:
    golden.check("runner/run_tiny_decode.cpp", emit_runner(tiny))


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_a_runner_compiles_without_a_warning(
    tiny: LaunchPlan, tmp_path: Path, standard: str
) -> None:
    for name, text in {**runner_sources(), runner_file(tiny): emit_runner(tiny)}.items():
        (tmp_path / name).write_text(text)
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-c"]
    units = [runner_file(tiny), "null_launcher.cpp"]
    command = ["g++", f"-std={standard}", *strict, *units]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_the_header_is_c_as_well(tmp_path: Path) -> None:
    (tmp_path / "ascendfx_runner.h").write_text(runner_sources()["ascendfx_runner.h"])
    (tmp_path / "unit.c").write_text('#include "ascendfx_runner.h"\nAscendfxRun run;\n')
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "unit.c"]
    subprocess.run(["gcc", *strict], cwd=tmp_path, check=True)  # noqa: S607


def test_a_runner_of_another_version_says_so(tools: RunnerTools, tiny: LaunchPlan) -> None:
    assert f"#define ASCENDFX_RUNNER_VERSION {VERSION}\n" in runner_sources()["ascendfx_runner.h"]
    older = emit_runner(tiny).replace(f"VERSION == {VERSION}", f"VERSION == {VERSION - 1}")
    with pytest.raises(GraphError, match=r"emitted for another version of ascendfx_runner\.h"):
        PlanRunner(tiny, spread(tiny), NullLauncher(tools), tools, older)
