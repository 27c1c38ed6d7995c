"""One step as every executor sees it: control tensors in, tokens and logits out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.step_names import LOGIT_ROWS
from ascendfx.runtime.emulator.runner_tools import RunnerTools

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class StepInputs:
    """Control tensors of one step, sized to what the step really holds.

    Attributes:
        token_ids: ``[rows]``.
        positions: ``[rows]``, counted from 0 in each request.
        slots: ``[rows]``, block times block length plus offset.
        row_request: ``[rows]``, index into ``block_table``.
        block_table: ``[requests, table_blocks]``; entries behind the last block of a request are 0.
        logit_rows: ``[requests]``, the row whose logits are wanted.
        context: The longest request of the step in tokens, those of the step included.
        further: Control tensors of plans that choose tokens as requests want, by name.
    """

    token_ids: Ints
    positions: Ints
    slots: Ints
    row_request: Ints
    block_table: Ints
    logit_rows: Ints
    context: int
    further: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])

    @property
    def rows(self) -> int:
        """Token rows of the step."""
        return self.token_ids.size

    @property
    def requests(self) -> int:
        """Requests of the step."""
        return self.block_table.shape[0]

    def controls(self) -> dict[str, NDArray[Any]]:
        """Return the control tensors by the names of the serving form's inputs."""
        return {
            "token_ids": self.token_ids,
            "positions": self.positions,
            "slots": self.slots,
            "row_request": self.row_request,
            "block_table": self.block_table,
            LOGIT_ROWS: self.logit_rows,
            **self.further,
        }


@dataclass(frozen=True)
class StepOutputs:
    """What a step returns.

    Attributes:
        next_tokens: ``[requests]``, the most likely token after each ``logit_rows`` row.
        logits: ``[requests, vocabulary]`` in the plan's element format.
        draft_tokens: Of a prefill with drafts, ``[requests]`` for each of them.
    """

    next_tokens: Ints
    logits: NDArray[Any]
    draft_tokens: tuple[Ints, ...] = ()


class Executor(Protocol):
    """Runs steps and keeps the caches between them."""

    def capacities(self, plan: str) -> Capacities:
        """Return the largest sizes the plan ``decode`` or ``prefill`` serves."""
        ...

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Run one step of a plan."""
        ...


class StepExecutor(Executor, Protocol):
    """An executor whose ``decode`` plan prepares each step from the one before it."""

    def control(self, plan: str, name: str) -> NDArray[Any]:
        """Return a control tensor or a result of a plan, as a view of the whole capacity."""
        ...

    def run_steps(self, plan: str, steps: int) -> None:
        """Run a plan so often; its control tensors are what the last step left, or the host."""
        ...

    def caches(self) -> Mapping[str, NDArray[Any]]:
        """Return every cache by name, as views ``[blocks, block length, ...]``."""
        ...


@runtime_checkable
class HasTools(Protocol):
    """An executor that compiles runners; the engine then compiles its own loops, too.

    Attributes:
        tools: How.
    """

    tools: RunnerTools
