"""Run serving programs on the reference interpreter, in float64, for debugging."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import AdvanceRequests
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_source import TensorsByKey, TensorSource
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from ascendfx.runtime.executor.step_controls import (
    EMITTED,
    first_rows,
    host_controls,
    with_draft_rows,
)


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
        blocks = {"blocks": next(iter(capacities.values())).blocks}
        self._caches: dict[str, NDArray[Any]] = {
            name: np.zeros([bind_size(d, blocks) for d in kind.shape])
            for name, kind in first.main.input_types.items()
            if name.startswith("cache.")
        }

    def capacities(self, plan: str) -> Capacities:
        """Return the sizes the plan was made for."""
        return self._capacities[plan]

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Interpret one step."""
        program, drafts = self.programs[plan], self._capacities[plan].drafts
        names = program.main.input_types
        advances = EMITTED in names
        step = with_draft_rows(inputs, drafts) if advances else inputs
        controls = host_controls(step, names, drafts)
        outputs = interpret(
            program,
            TensorsByKey(self._weights, {**self._caches, **controls}),
            sizes={"context": inputs.context},
        )
        caches = len(outputs) - len(self._caches)
        self._caches = dict(zip(self._caches, outputs[caches:], strict=True))
        made = outputs[: caches - len(AdvanceRequests.in_place)] if advances else outputs[:caches]
        tokens, logits, *draft_tokens = (
            first_rows(each, inputs, every_row=advances, drafts=drafts) for each in made
        )
        drafted = tuple(each.astype(np.int32) for each in draft_tokens)
        return StepOutputs(tokens.astype(np.int32), logits, drafted)
