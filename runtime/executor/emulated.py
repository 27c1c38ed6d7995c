"""Run launch plans with the emitted kernels on the CPU."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Buffer, Capacities, LaunchPlan, Place
from ascendfx.codegen.ascendc.target import Target
from ascendfx.runtime.emulator import build_kernels
from ascendfx.runtime.emulator.launchers import EmulatorLauncher
from ascendfx.runtime.emulator.runner_tools import tools_beside
from ascendfx.runtime.executor.bound_plan import BoundPlan
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.run_counts import RunCounts


class EmulatedExecutor:
    """Device memory in NumPy arrays, kernels in shared objects; one arena for all plans.

    Attributes:
        tools: Compile runners.
    """

    def __init__(
        self,
        plans: Mapping[str, LaunchPlan],
        weights: Mapping[str, NDArray[Any]],
        target: Target,
        *,
        cache_dir: Path | None = None,
        runners: Mapping[str, str] | None = None,
        progress: Progress = silent,
    ) -> None:
        """Build kernels and runners, and allocate device memory.

        Args:
            plans: By name; they share the arena, weights and caches.
            weights: By name, in the format and packed shape of the plans.
            target: Chip whose limits are checked.
            cache_dir: Folder of compiled files; default: the user's cache folder.
            runners: Text of each plan's runner; default: what is emitted for the plan.
            progress: Told about the builds.

        Raises:
            GraphError: A text does not compile, or the cache cannot be written.
        """
        self._plans = plans
        kernels = build_kernels(
            list({k.name: k for plan in plans.values() for k in plan.kernels}.values()),
            target,
            cache_dir=cache_dir,
            progress=progress,
        )
        self._arena = np.zeros(max(plan.arena_bytes for plan in plans.values()), np.uint8)
        self._weights = weights
        caches = {b.name: b for plan in plans.values() for b in plan.of_place(Place.CACHE)}
        self._caches = {name: np.zeros(each.bytes, np.uint8) for name, each in caches.items()}
        self._cache_views = {
            name: self._caches[name].view(each.dtype.numpy).reshape(each.shape)
            for name, each in caches.items()
        }
        self._bound: dict[str, BoundPlan] = {}
        self.tools = tools = tools_beside(next(iter(kernels.values())).library)
        for name, plan in plans.items():
            launcher = EmulatorLauncher(tools, plan, kernels)
            bound = BoundPlan(plan, self._memory, launcher, tools, (runners or {}).get(name))
            bound.check_arguments()
            self._bound[name] = bound

    def capacities(self, plan: str) -> Capacities:
        """Return the sizes the plan was made for."""
        return self._plans[plan].capacities

    def control(self, plan: str, name: str) -> NDArray[Any]:
        """Return a control tensor or a result of a plan, as a view of the whole capacity.

        Raises:
            KeyError: The plan has none of this name.
        """
        return self._bound[plan].control(name)

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Write the control tensors, run one step, read its results.

        Raises:
            EmulatorError: A kernel broke a rule of the chip.
        """
        return self._bound[plan].run(inputs)

    def run_steps(self, plan: str, steps: int) -> None:
        """Run a plan so often in one call; its control tensors are what the last step left.

        Other Python threads go on meanwhile, but none may use this executor.

        Raises:
            EmulatorError: A kernel broke a rule of the chip; no kernel was launched after it.
        """
        self._bound[plan].run_steps(steps)

    def caches(self) -> Mapping[str, NDArray[Any]]:
        """Return every cache by name, as views."""
        return self._cache_views

    def counts(self, plan: str) -> RunCounts:
        """Return what the last run of a plan asked of the emulator."""
        return self._bound[plan].counts

    def _memory(self, buffer: Buffer) -> NDArray[np.uint8]:
        match buffer.place:
            case Place.ARENA:
                return self._arena[buffer.offset_bytes : buffer.offset_bytes + buffer.bytes]
            case Place.WEIGHT:
                return _bytes(self._weights[buffer.name])
            case Place.CACHE:
                return self._caches[buffer.name]
            case Place.CONTROL:
                raise AssertionError("control tensors belong to the plan")


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    flat = array.reshape(-1)
    if not flat.flags.c_contiguous:
        raise AssertionError("device tensors are contiguous")
    return flat.view(np.uint8)
