"""Call the compiled runner of a plan: one call launches the plan as often as it is told."""

import ctypes
from collections.abc import Sequence

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.runner.emit_runner import (
    bind_name,
    emit_runner,
    entry_name,
    runner_file,
)
from ascendfx.runtime.emulator.launchers import Counts, Launcher
from ascendfx.runtime.emulator.runner_tools import RunnerTools
from ascendfx.runtime.run_counts import RunCounts


class _Run(ctypes.Structure):
    """``AscendfxRun``."""

    _fields_ = [("counts", Counts), ("steps", ctypes.c_uint32), ("launch", ctypes.c_uint32)]


class PlanRunner:
    """A plan bound to memory and a launcher; Python waits outside while it runs."""

    def __init__(
        self,
        plan: LaunchPlan,
        addresses: Sequence[int],
        launcher: Launcher,
        tools: RunnerTools,
        text: str | None = None,
    ) -> None:
        """Compile and bind.

        Args:
            plan: What is launched.
            addresses: Of each buffer of the plan, in its order. The memory must outlive the runner.
            launcher: Launches its kernels.
            tools: Compile the runner.
            text: Of the runner; default: what is emitted for the plan.

        Raises:
            GraphError: It does not compile, or the cache cannot be written.
        """
        library = tools.build(runner_file(plan), emit_runner(plan) if text is None else text)
        self._entry = library[entry_name(plan)]
        self._entry.restype = ctypes.c_int32
        self._launcher = launcher
        self._struct = ctypes.byref(launcher.struct)
        buffers = (ctypes.c_void_p * len(addresses))(*addresses)
        arguments = sum(len(launch.arguments) for launch in plan.launches)
        self._arguments = (ctypes.c_void_p * (arguments + 1))()  # C has no empty array
        library[bind_name(plan)](buffers, self._arguments)
        self._run = _Run()
        self._result = ctypes.byref(self._run)

    def run(self, steps: int) -> None:
        """Launch the plan ``steps`` times; other Python threads go on meanwhile.

        Raises:
            Exception: What the launcher makes of a launch that failed; none was launched after it.
        """
        status = self._entry(self._struct, self._arguments, steps, self._result)
        if status:
            raise self._launcher.error(self._run.steps, self._run.launch, status)

    @property
    def counts(self) -> RunCounts:
        """What the last run asked of the launcher."""
        counts = self._run.counts
        return RunCounts(counts.launches, counts.copies, counts.syncs)
