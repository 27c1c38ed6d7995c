"""Launch plans without running a kernel, to measure everything else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Buffer, Capacities, LaunchPlan
from ascendfx.runtime.emulator.kernel_cache import default_cache_dir
from ascendfx.runtime.emulator.launchers import NullLauncher
from ascendfx.runtime.emulator.runner_tools import tools_of_host
from ascendfx.runtime.executor.bound_plan import BoundPlan
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from ascendfx.runtime.run_counts import RunCounts


class NullExecutor:
    """The emulated executor with kernels that take no time and do nothing.

    Control tensors and results exist and keep what the host writes; weights, caches and temporaries
    have no memory, so plans of any size fit.

    Attributes:
        tools: Compile runners.
    """

    def __init__(self, plans: Mapping[str, LaunchPlan], *, cache_dir: Path | None = None) -> None:
        """Build the runners.

        Args:
            plans: By name.
            cache_dir: Folder of compiled files; default: the user's cache folder.

        Raises:
            GraphError: There is no compiler, or the cache cannot be written.
        """
        self._plans = plans
        self.tools = tools_of_host(cache_dir or default_cache_dir())
        launcher = NullLauncher(self.tools)
        self._bound = {
            name: BoundPlan(plan, self._memory, launcher, self.tools)
            for name, plan in plans.items()
        }

    def capacities(self, plan: str) -> Capacities:
        """Return the sizes the plan was made for."""
        return self._plans[plan].capacities

    def control(self, plan: str, name: str) -> NDArray[Any]:
        """Return a control tensor of a plan, as a view of the whole capacity.

        Raises:
            KeyError: The plan has none of this name.
        """
        return self._bound[plan].control(name)

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Write the control tensors, launch nothing, read what stands in the results."""
        return self._bound[plan].run(inputs)

    def run_steps(self, plan: str, steps: int) -> None:
        """Go through the launches of a plan so often."""
        self._bound[plan].run_steps(steps)

    def counts(self, plan: str) -> RunCounts:
        """Return what the last run of a plan asked of the launcher."""
        return self._bound[plan].counts

    @staticmethod
    def _memory(buffer: Buffer) -> NDArray[np.uint8]:
        del buffer  # addresses are passed on and never followed
        return np.zeros(0, np.uint8)
