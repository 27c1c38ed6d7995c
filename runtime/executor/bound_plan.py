"""A plan with its memory, its control tensors and its compiled runner."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Direction
from ascendfx.codegen.ascendc.launch_plan import ROW_START, Buffer, LaunchPlan, Place
from ascendfx.ir.step_names import EMITTED, SIZES
from ascendfx.runtime.emulator.launchers import Launcher
from ascendfx.runtime.emulator.plan_runner import PlanRunner
from ascendfx.runtime.emulator.runner_tools import RunnerTools
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from ascendfx.runtime.executor.step_controls import first_rows, host_controls, with_draft_rows
from ascendfx.runtime.run_counts import RunCounts

Bytes = NDArray[np.uint8]


class BoundPlan:
    """Made once, run many times; a run allocates nothing."""

    def __init__(
        self,
        plan: LaunchPlan,
        memory: Callable[[Buffer], Bytes],
        launcher: Launcher,
        tools: RunnerTools,
        text: str | None = None,
    ) -> None:
        """Allocate control tensors and bind the runner.

        Args:
            plan: What is run.
            memory: Returns the bytes of a buffer that is no control tensor.
            launcher: Launches the kernels of the plan.
            tools: Compile the runner.
            text: Of the runner; default: what is emitted for the plan.
        """
        self._plan = plan
        self._memory = {
            buffer.name: np.zeros(buffer.bytes, np.uint8)
            if buffer.place is Place.CONTROL
            else memory(buffer)
            for buffer in plan.buffers
        }
        self._controls = {b.name: self._view(b) for b in plan.of_place(Place.CONTROL)}
        addresses = [each.__array_interface__["data"][0] for each in self._memory.values()]
        self._runner = PlanRunner(plan, addresses, launcher, tools, text)

    @property
    def counts(self) -> RunCounts:
        """What the last run asked of the launcher."""
        return self._runner.counts

    def control(self, name: str) -> NDArray[Any]:
        """Return a control tensor or a result, as a view of the whole capacity."""
        if name not in self._controls and name in self._plan.results:
            return self._view(self._plan.buffer_by_name[name])
        return self._controls[name]

    def run(self, inputs: StepInputs) -> StepOutputs:
        """Write the control tensors, run one step, copy its results."""
        capacities = self._plan.capacities
        advances, drafts = EMITTED in self._controls, capacities.drafts
        step = with_draft_rows(inputs, capacities.tree) if advances else inputs
        packed = ROW_START in self._plan.results
        drafted = drafts if packed and inputs.rows != inputs.requests else 0
        controls = host_controls(step, self._controls, capacities.tree, drafted=drafted)
        for name, values in controls.items():
            _fill(self._controls[name], values)
        sizes = self._controls[SIZES]
        sizes[:] = 0
        told = capacities.sizes(step.rows, step.requests, step.context)
        sizes[: len(told)] = told
        self.run_steps(1)
        tokens, logits, *draft_tokens = (
            first_rows(
                self.control(name), inputs, every_row=advances, drafts=drafts, packed=packed
            ).copy()
            for name in self._plan.results
            if name != ROW_START
        )
        return StepOutputs(tokens, logits, tuple(draft_tokens))

    def run_steps(self, steps: int) -> None:
        """Run the plan on the control tensors as they are."""
        self._runner.run(steps)

    def check_arguments(self) -> None:
        """Check that every kernel finds the memory it was planned for, and may write it."""
        for launch in self._plan.launches:
            kernel = self._plan.kernel_by_name[launch.kernel]
            for formal, actual in zip(kernel.arguments, launch.arguments, strict=True):
                memory = self._memory[actual.buffer]
                end = actual.byte_offset + formal.elements * formal.dtype.bytes
                writes = formal.direction is not Direction.IN
                if end > memory.size or (writes and not memory.flags.writeable):
                    raise AssertionError(
                        f"{launch.label}: {formal.name} wants bytes {actual.byte_offset}..{end} of "
                        f"{actual.buffer}, which has {memory.size}, to "
                        f"{'write' if writes else 'read'}"
                    )

    def _view(self, buffer: Buffer) -> NDArray[Any]:
        return self._memory[buffer.name].view(buffer.dtype.numpy).reshape(buffer.shape)


def _fill(control: NDArray[Any], values: NDArray[Any]) -> None:
    """Write ``values`` to the first rows; what is behind them stays and is never read."""
    control[tuple(slice(size) for size in values.shape)] = values
