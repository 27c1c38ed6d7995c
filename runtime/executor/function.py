"""Run the plan of a plain function with the emitted kernels on the CPU."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS
from ascendfx.codegen.ascendc.launch_plan import Place
from ascendfx.codegen.ascendc.lowering.lower_function import FunctionPlan
from ascendfx.codegen.ascendc.target import Target
from ascendfx.codegen.ascendc.weight_spec import evaluate_weight
from ascendfx.ir.step_names import SIZES
from ascendfx.ir.step_state import Size
from ascendfx.ir.tensor_type import TensorType
from ascendfx.runtime.emulator import build_kernels

Array = NDArray[Any]  # Any: tensors have every element type


class FunctionRunner:
    """Kernels of one function, built once; every call has memory and weights of its own."""

    def __init__(
        self, function: FunctionPlan, target: Target, *, cache_dir: Path | None = None
    ) -> None:
        self._function = function
        self._kernels = build_kernels(function.plan.kernels, target, cache_dir=cache_dir)

    def run(
        self,
        inputs: Mapping[str, Array],
        parameters: Mapping[str, Array],
        results: tuple[TensorType, ...],
    ) -> tuple[Array, ...]:
        """Return the results.

        Args:
            inputs: By name, in their own shapes.
            parameters: By name; weights are made of them anew.
            results: Static types of what is returned, in memory format.
        """
        plan = self._function.plan
        memory: dict[str, NDArray[np.uint8]] = {}
        arena = np.zeros(plan.arena_bytes, np.uint8)
        for buffer in plan.buffers:
            if buffer.place is Place.ARENA:
                end = buffer.offset_bytes + buffer.bytes
                memory[buffer.name] = arena[buffer.offset_bytes : end]
            elif buffer.name in inputs:
                given = inputs[buffer.name].astype(buffer.dtype.numpy)
                memory[buffer.name] = _bytes(np.ascontiguousarray(given))
            else:
                memory[buffer.name] = np.zeros(buffer.bytes, np.uint8)
        for spec in self._function.weights:
            memory[spec.name] = _bytes(evaluate_weight(spec, parameters))
        rows = plan.capacities.rows
        sizes = np.zeros(SIZES_ELEMENTS, np.int32)
        sizes[Size.ROWS] = rows
        sizes[Size.PAIRS] = rows * plan.capacities.pairs_per_row
        memory[SIZES] = _bytes(sizes)
        for launch in plan.launches:
            kernel = plan.kernel_by_name[launch.kernel]
            tensors: list[Array] = []
            for formal, actual in zip(kernel.arguments, launch.arguments, strict=True):
                end = actual.byte_offset + formal.elements * formal.dtype.bytes
                part = memory[actual.buffer][actual.byte_offset : end]
                tensors.append(part.view(formal.dtype.numpy))
            self._kernels[launch.kernel].launch(tensors)
        found: list[Array] = []
        for output, kind in zip(self._function.outputs, results, strict=True):
            shape = tuple(map(int, kind.shape))
            end = output.byte_offset + int(np.prod(shape, dtype=np.int64)) * kind.dtype.bytes
            part = memory[output.buffer][output.byte_offset : end]
            found.append(part.view(kind.dtype.numpy).reshape(shape).copy())
        return tuple(found)


def _bytes(array: Array) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
