"""Run launch plans with the emitted kernels on the CPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS
from ascendfx.codegen.ascendc.launch_plan import Argument, Buffer, Capacities, LaunchPlan, Place
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from ascendfx.runtime.executor.step_controls import (
    EMITTED,
    first_rows,
    host_controls,
    with_draft_rows,
)
from ascendfx.runtime.progress import Progress, silent


class EmulatedExecutor:
    """Device memory in NumPy arrays, kernels in shared objects; one arena for all plans."""

    def __init__(
        self,
        plans: Mapping[str, LaunchPlan],
        weights: Mapping[str, NDArray[Any]],
        target: Target,
        *,
        cache_dir: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        self._plans = plans
        kernels = {k.name: k for plan in plans.values() for k in plan.kernels}
        self._kernels = build_kernels(
            list(kernels.values()),
            target,
            cache_dir=cache_dir,
            progress=progress,
        )
        self._arena = np.zeros(max(plan.arena_bytes for plan in plans.values()), np.uint8)
        self._weights = weights
        caches = {b.name: b for plan in plans.values() for b in plan.of_place(Place.CACHE)}
        self._caches = {name: _zeros(buffer) for name, buffer in caches.items()}
        self._bound = {name: _BoundPlan(plan, self) for name, plan in plans.items()}

    def capacities(self, plan: str) -> Capacities:
        """Return the sizes the plan was made for."""
        return self._plans[plan].capacities

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Write the control tensors, launch every kernel, read tokens and logits."""
        return self._bound[plan].run(inputs)

    def kernel(self, name: str) -> BuiltKernel:
        """Return a built kernel."""
        return self._kernels[name]

    def memory(self, buffer: Buffer) -> NDArray[np.uint8] | None:
        """Return the bytes of a buffer that outlives a step; None for a control buffer."""
        match buffer.place:
            case Place.ARENA:
                return self._arena[buffer.offset_bytes : buffer.offset_bytes + buffer.bytes]
            case Place.WEIGHT:
                return _bytes(self._weights[buffer.name])
            case Place.CACHE:
                return _bytes(self._caches[buffer.name])
            case Place.CONTROL:
                return None


class _BoundPlan:
    """A plan whose launches have their arrays; made once, run many times."""

    def __init__(self, plan: LaunchPlan, device: EmulatedExecutor) -> None:
        self._plan = plan
        self._memory: dict[str, NDArray[np.uint8]] = {}
        self._controls: dict[str, NDArray[Any]] = {}
        for buffer in plan.buffers:
            found = device.memory(buffer)
            if found is None:
                self._controls[buffer.name] = _zeros(buffer)
                found = _bytes(self._controls[buffer.name])
            self._memory[buffer.name] = found
        self._launches = [
            (device.kernel(launch.kernel), self._arguments(launch.kernel, launch.arguments))
            for launch in plan.launches
        ]

    def run(self, inputs: StepInputs) -> StepOutputs:
        capacities = self._plan.capacities
        advances, drafts = EMITTED in self._controls, capacities.drafts
        step = with_draft_rows(inputs, drafts) if advances else inputs
        for name, values in host_controls(step, self._controls, drafts).items():
            _fill(self._controls[name], values)
        sizes = self._controls["sizes"]
        sizes[:] = 0
        pairs = step.rows * capacities.pairs_per_row
        sizes[:4] = (step.rows, step.requests, step.context, pairs)
        for kernel, tensors in self._launches:
            kernel.launch(tensors)
        tokens, logits, *draft_tokens = (
            first_rows(self._result(name), inputs, every_row=advances, drafts=drafts).copy()
            for name in self._plan.results
        )
        return StepOutputs(tokens, logits, tuple(draft_tokens))

    def _result(self, name: str) -> NDArray[Any]:
        buffer = self._plan.buffer_by_name[name]
        return self._memory[name].view(buffer.dtype.numpy).reshape(buffer.shape)

    def _arguments(self, kernel: str, arguments: Sequence[Argument]) -> tuple[NDArray[Any], ...]:
        kinds = self._plan.kernel_by_name[kernel].arguments
        return tuple(
            self._array(argument, kind.dtype, kind.elements)
            for argument, kind in zip(arguments, kinds, strict=True)
        )

    def _array(self, argument: Argument, dtype: DType, elements: int) -> NDArray[Any]:
        start = argument.byte_offset
        stop = start + elements * dtype.bytes
        memory = self._memory[argument.buffer]
        if stop > memory.size:
            raise AssertionError(
                f"{argument.buffer} has {memory.size} bytes, a kernel wants {start}..{stop}"
            )
        return memory[start:stop].view(dtype.numpy)


def _zeros(buffer: Buffer) -> NDArray[Any]:
    elements = SIZES_ELEMENTS if buffer.name == "sizes" else buffer.elements
    return np.zeros(elements, buffer.dtype.numpy).reshape(
        (elements,) if buffer.name == "sizes" else buffer.shape
    )


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    flat = array.reshape(-1)
    if not flat.flags.c_contiguous:
        raise AssertionError("device tensors are contiguous")
    return flat.view(np.uint8)


def _fill(control: NDArray[Any], values: NDArray[Any]) -> None:
    """Write ``values`` to the first rows; what is behind them stays and is never read."""
    control[tuple(slice(size) for size in values.shape)] = values
