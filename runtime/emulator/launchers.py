"""What a plan runner launches through: the emulator, or nothing at all.

The structs are those of ``ascendfx_runner.h`` and ``emulator_launcher.cpp`` in
codegen/ascendc/runner; keep both in step.
"""

import ctypes
from collections.abc import Mapping
from typing import Protocol

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.runtime.emulator.error import EmulatorError
from ascendfx.runtime.emulator.launch import BuiltKernel, LaunchRequest, LaunchResult, launch_error
from ascendfx.runtime.emulator.runner_tools import RunnerTools, runner_sources


class Counts(ctypes.Structure):
    """``AscendfxCounts``."""

    _fields_ = [
        ("launches", ctypes.c_uint64),
        ("copies", ctypes.c_uint64),
        ("syncs", ctypes.c_uint64),
    ]


class LauncherStruct(ctypes.Structure):
    """``AscendfxLauncher``; the entries are filled in by its library."""

    _fields_ = [
        ("context", ctypes.c_void_p),
        ("counts", ctypes.POINTER(Counts)),
        ("launch", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("sync", ctypes.c_void_p),
    ]


class _Emulator(ctypes.Structure):
    _fields_ = [
        ("kernels", ctypes.POINTER(LaunchRequest)),
        ("result", ctypes.POINTER(LaunchResult)),
    ]


class Launcher(Protocol):
    """Launches the kernels of one plan.

    Attributes:
        struct: What the runner is given.
    """

    struct: LauncherStruct

    def error(self, step: int, launch: int, status: int) -> Exception:
        """Return what to raise when a launch returned a status other than 0."""
        ...


class NullLauncher:
    """Returns at once: what is left is everything that is not a kernel."""

    def __init__(self, tools: RunnerTools) -> None:
        self.struct = _launcher(tools, "null_launcher.cpp")

    def error(self, step: int, launch: int, status: int) -> Exception:
        """Fail: it launches nothing that could fail."""
        raise AssertionError(f"status {status} of launch {launch} in step {step}")


class EmulatorLauncher:
    """Runs the kernels of a plan in the emulator."""

    def __init__(
        self, tools: RunnerTools, plan: LaunchPlan, kernels: Mapping[str, BuiltKernel]
    ) -> None:
        self._plan = plan
        self._requests = [kernels[kernel.name].prepare() for kernel in plan.kernels]
        self._table = (LaunchRequest * len(self._requests))(*self._requests)
        self._result = LaunchResult()
        self._emulator = _Emulator(self._table, ctypes.pointer(self._result))
        self.struct = _launcher(tools, "emulator_launcher.cpp")
        self.struct.context = ctypes.addressof(self._emulator)

    def error(self, step: int, launch: int, status: int) -> EmulatorError:
        """Return the fault of the last launch."""
        del status  # there is one way to fail, and the result describes it
        failed = self._plan.launches[launch]
        error = launch_error(self._plan.kernel_by_name[failed.kernel], self._result)
        error.step, error.launch, error.label = step, launch, failed.label
        return error


def _launcher(tools: RunnerTools, unit: str) -> LauncherStruct:
    struct = LauncherStruct()
    struct.counts = ctypes.pointer(Counts())
    tools.build(unit, runner_sources()[unit]).ascendfx_launcher(ctypes.byref(struct))
    return struct
