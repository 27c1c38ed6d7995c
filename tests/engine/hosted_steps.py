"""Steps that prepare the next one, over a plan that cannot: the host does it in between."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS
from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.ops.advance_requests import AdvanceRequests
from ascendfx.ir.ops.sample_tokens import SampleTokens
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    Finish,
    Option,
    State,
)
from ascendfx.ir.token_choice import wants_penalties
from ascendfx.runtime.executor.step import Executor, StepInputs, StepOutputs
from ascendfx.runtime.number_range import first_not_finite

Array = NDArray[Any]

_IN_PLACE = ("token_ids", "positions", "slots", "state", "emitted", "step")


class HostedSteps:
    """Gives an `Executor` of plain plans, without drafts, the form of a `StepExecutor`.

    Tokens are chosen and requests advanced by the operations that a plan would hold, on NumPy.
    Places that do not run take no part in a step.
    """

    def __init__(self, executor: Executor, block_tokens: int, vocabulary: int = 0) -> None:
        self._executor = executor
        self._block_tokens = block_tokens
        capacities = executor.capacities("decode")
        places, table = capacities.requests, capacities.table_blocks
        shapes = {
            **dict.fromkeys(("token_ids", "positions", "slots", "row_request"), (places,)),
            "block_table": (places, table),
            "state": (places, STATE_COLUMNS),
            "stop_ids": (places, STOP_COLUMNS),
            "emitted": (1, places, 2),
            "step": (STEP_COLUMNS,),
            "sizes": (SIZES_ELEMENTS,),
        }
        self._controls: dict[str, Array] = {n: np.zeros(s, np.int32) for n, s in shapes.items()}
        self._controls["options"] = np.zeros((places, OPTION_COLUMNS), np.float32)
        self._controls["logits"] = np.zeros((places, 0), np.float32)
        self._counts = np.zeros((places, vocabulary), np.int32)

    def capacities(self, plan: str) -> Capacities:
        """Return the sizes of steps without drafts."""
        given = self._executor.capacities(plan)
        rows = given.requests if plan == "decode" else given.rows
        return replace(given, rows=rows, steps=1, drafts=0)

    def control(self, plan: str, name: str) -> Array:
        """Return a control tensor of the decode step."""
        if plan != "decode":
            raise AssertionError(f"`{plan}` is run by its inputs alone")
        return self._controls[name]

    def caches(self) -> dict[str, Array]:
        """Return what is kept here; what the plans keep is theirs."""
        return {"cache.counts": self._counts}

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Run one step and choose tokens as ``inputs.further`` says."""
        outputs = self._executor.run(plan, inputs)
        further = inputs.further
        rows = (further["logit_positions"], further["logit_requests"])
        choice = (further["options"], further["state"], further["stop_ids"])
        return StepOutputs(_choose(outputs, choice, *rows, self._counts), outputs.logits)

    def run_steps(self, plan: str, steps: int) -> None:
        """Run the decode step ``steps`` times."""
        for _ in range(steps):
            self._step(plan)

    def _step(self, plan: str) -> None:
        controls = self._controls
        places = int(controls["sizes"][1])
        runs = np.flatnonzero(controls["state"][:places, State.FINISHED] == Finish.RUNS)
        sampled = np.zeros(places, np.int32)
        if runs.size:
            each = np.arange(runs.size, dtype=np.int32)
            positions = controls["positions"][runs]
            inputs = StepInputs(
                token_ids=controls["token_ids"][runs],
                positions=positions,
                slots=controls["slots"][runs],
                row_request=each,
                block_table=controls["block_table"][runs],
                logit_rows=each,
                context=int(positions.max()) + 1,
            )
            outputs = self._executor.run(plan, inputs)
            choice = [controls[name][runs] for name in ("options", "state", "stop_ids")]
            chosen = _choose(outputs, choice, positions, each, self._counts)
            sampled[runs] = chosen
            self._keep_logits(runs, outputs.logits)
        self._advance(places, sampled)

    def _advance(self, places: int, sampled: Array) -> None:
        controls = self._controls
        names = ("token_ids", "positions", "slots", "block_table", "state", "stop_ids")
        zeros = np.zeros(places, np.int32)
        operands = [controls[name][:places] for name in names]
        emitted = controls["emitted"][:, :places]
        options = controls["options"][:places]
        *results, self._counts[:] = AdvanceRequests(0, self._block_tokens).reference(
            *operands, zeros, sampled, emitted, controls["step"], self._counts, options
        )
        for name, values in zip(_IN_PLACE, results, strict=True):
            target = controls[name]
            if name == "emitted":
                target = target[:, :places]
            target[: len(values)] = values

    def _keep_logits(self, places: Array, logits: Array) -> None:
        kept = self._controls["logits"]
        if kept.shape[1] != logits.shape[1] or kept.dtype != logits.dtype:
            kept = np.zeros((len(kept), logits.shape[1]), logits.dtype)
            self._controls["logits"] = kept
        kept[places] = logits


def _choose(
    outputs: StepOutputs, choice: Sequence[Array], positions: Array, requests: Array, counts: Array
) -> NDArray[np.int32]:
    """Return the token of each row; -1 where any logit is infinite or NaN, or all are zero."""
    options, state, stops = choice
    logits = outputs.logits
    tokens = np.array(outputs.next_tokens, np.int32)
    of_row = state[requests]
    new = of_row[:, State.GENERATED] + positions - of_row[:, State.LENGTH]
    early = new < of_row[:, State.MINIMUM]
    of_row = options[requests]
    chosen = early | (of_row[:, Option.TEMPERATURE] > 0) | wants_penalties(of_row)
    for row in np.flatnonzero(chosen).tolist():
        one = slice(row, row + 1)
        numbers = logits[one].astype(np.float64)
        operands = (numbers, options, state, stops, positions[one], requests[one], counts)
        tokens[row] = SampleTokens().reference(*operands)[0][0]
    if first_not_finite(logits) is not None:
        tokens[~np.isfinite(logits.astype(np.float64)).all(axis=1)] = -1
    tokens[~logits.any(axis=1)] = -1
    return tokens
