"""Run serving programs on the reference interpreter, in float64, for debugging."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS
from ascendfx.codegen.ascendc.launch_plan import ROW_START, Capacities
from ascendfx.codegen.ascendc.lowering.check_caches import overwritten_inputs
from ascendfx.codegen.ascendc.lowering.lower_program import RESULTS
from ascendfx.ir.interpret import interpret
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import CACHE_PREFIX, EMITTED, SIZES
from ascendfx.ir.tensor_source import TensorsByKey, TensorSource
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.step_inputs import is_packed
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from ascendfx.runtime.executor.step_controls import first_rows, host_controls, with_draft_rows


class ReferenceExecutor:
    """Meaning of the serving form without kernels: slow, exact, no rounding to the model's format.

    Attributes:
        programs: Serving program of each plan; all plans share one set of caches.
    """

    def __init__(
        self,
        programs: Mapping[str, Program],
        capacities: Mapping[str, Capacities],
        weights: TensorSource,
    ) -> None:
        self.programs = programs
        self._capacities = capacities
        self._weights = weights
        first = next(iter(programs.values()))
        sizes = {
            "blocks": next(iter(capacities.values())).blocks,
            "places": max(each.requests for each in capacities.values()),
        }
        self._caches: dict[str, NDArray[Any]] = {
            name: _zeros(kind, sizes)
            for name, kind in first.main.input_types.items()
            if name.startswith(CACHE_PREFIX)
        }
        self._controls: dict[str, dict[str, NDArray[Any]]] = {}

    def capacities(self, plan: str) -> Capacities:
        """Return the sizes the plan was made for."""
        return self._capacities[plan]

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Interpret one step."""
        program, capacities = self.programs[plan], self._capacities[plan]
        names = program.main.input_types
        advances = EMITTED in names
        step = with_draft_rows(inputs, capacities.tree) if advances else inputs
        packed = is_packed(program)
        drafted = capacities.drafts if packed and inputs.rows != inputs.requests else 0
        controls = host_controls(step, names, capacities.tree, drafted=drafted)
        if packed:
            controls[SIZES] = np.zeros(SIZES_ELEMENTS, np.int32)
        outputs = interpret(
            program,
            TensorsByKey(self._weights, {**self._caches, **controls}),
            sizes={"context": inputs.context, str(PACKED_ROWS): step.rows},
        )
        caches = len(outputs) - len(self._caches)
        self._caches = dict(zip(self._caches, outputs[caches:], strict=True))
        made = outputs[: len(outputs) - len(_in_place(program))]
        names = _result_names(program)
        drafts = capacities.drafts
        tokens, logits, *draft_tokens = (
            first_rows(each, inputs, every_row=advances, drafts=drafts, packed=packed)
            for name, each in zip(names, made, strict=True)
            if name != ROW_START
        )
        drafted = tuple(each.astype(np.int32) for each in draft_tokens)
        return StepOutputs(tokens.astype(np.int32), logits, drafted)

    def control(self, plan: str, name: str) -> NDArray[Any]:
        """Return a control tensor or a result of a plan, as a view of the whole capacity.

        Raises:
            KeyError: The plan has none of this name.
        """
        return self._controls_of(plan)[name]

    def run_steps(self, plan: str, steps: int) -> None:
        """Interpret a plan so often; its control tensors are what the last step left."""
        for _ in range(steps):
            self._step(plan)

    def caches(self) -> Mapping[str, NDArray[Any]]:
        """Return every cache by name, as views; another step may replace them."""
        return self._caches

    def _step(self, plan: str) -> None:
        program, controls = self.programs[plan], self._controls_of(plan)
        graph = program.main
        rows, requests, context = (int(each) for each in controls[SIZES][:3])
        sizes = {**_sizes(self._capacities[plan]), "rows": rows, "requests": requests}
        sizes[str(PACKED_ROWS)] = rows
        used = {
            name: _used(controls[name], kind, sizes)
            for name, kind in graph.input_types.items()
            if name not in self._caches
        }
        tensors = TensorsByKey(self._weights, {**self._caches, **used})
        outputs = interpret(program, tensors, sizes={**sizes, "context": context})
        names = _in_place(program)
        names = (*_result_names(program), *names)
        for name, kind, values in zip(names, graph.output_types, outputs, strict=True):
            if name in self._caches:
                self._caches[name] = values
            else:
                _used(controls[name], kind, sizes)[...] = values

    def _controls_of(self, plan: str) -> dict[str, NDArray[Any]]:
        """Return the control tensors of a plan; a plan that only `run` runs has none."""
        if plan in self._controls:
            return self._controls[plan]
        program, sizes = self.programs[plan], _sizes(self._capacities[plan])
        graph = program.main
        kinds = {n: kind for n, kind in graph.input_types.items() if n not in self._caches}
        controls = {name: _zeros(kind, sizes) for name, kind in kinds.items()}
        for name, kind in zip(_result_names(program), graph.output_types, strict=False):
            controls[name] = _zeros(kind, sizes)
        controls[SIZES] = np.zeros(SIZES_ELEMENTS, np.int32)
        self._controls[plan] = controls
        return controls


def _sizes(capacities: Capacities) -> dict[str, int]:
    """Return the named sizes of a program at the capacity of its plan."""
    names = ("rows", "requests", "context", "blocks", "table_blocks", "steps")
    sizes: dict[str, int] = {name: getattr(capacities, name) for name in names}
    return {**sizes, "places": capacities.requests, str(PACKED_ROWS): capacities.rows}


def _in_place(program: Program) -> list[str]:
    """Return the inputs whose new contents a program returns behind its results, in order."""
    graph, written = program.main, overwritten_inputs(program, program.main)
    return [
        name
        for name, value in zip(graph.input_types, graph.inputs, strict=True)
        if name.startswith(CACHE_PREFIX) or value in written
    ]


def _result_names(program: Program) -> tuple[str, ...]:
    """Return the names of what a program returns before what it changes in place."""
    count = len(program.main.outputs) - len(_in_place(program))
    if is_packed(program):
        return (*RESULTS, ROW_START)
    return (*RESULTS, *(f"draft_tokens.{i}" for i in range(count - 2)))[:count]


def _zeros(kind: TensorType, sizes: Mapping[str, int]) -> NDArray[Any]:
    shape = [bind_size(size, sizes) for size in kind.shape]
    if kind.dtype is DType.I8:  # codes of a cache, as steps return them
        return np.zeros(shape, np.int64)
    return np.zeros(shape, np.float64 if kind.dtype.is_float else np.int32)


def _used(array: NDArray[Any], kind: TensorType, sizes: Mapping[str, int]) -> NDArray[Any]:
    """Return the first rows, those that a step of these sizes has."""
    return array[tuple(slice(bind_size(size, sizes)) for size in kind.shape)]
