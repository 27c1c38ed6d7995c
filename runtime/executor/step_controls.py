"""Control tensors of a step that the host drives by itself, one step at a time.

A plan that can prepare the next step on the device reads more than `StepInputs` holds: what each
request wants and has done, and where emitted tokens go. The host that takes a step and looks at its
logits wants the most likely token and nothing afterwards.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.step_names import (
    ANCESTORS,
    DRAFT_IDS,
    DRAFT_PROBS,
    EMITTED,
    HIDDEN_SLOTS,
    KNOWN_TOKENS,
    LOGIT_POSITIONS,
    LOGIT_REQUESTS,
    RECENT,
)
from ascendfx.ir.step_state import (
    DRAFT_CANDIDATES,
    OPTION_COLUMNS,
    RECENT_COLUMNS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    State,
)
from ascendfx.runtime.executor.step import StepInputs

"""Only a step that advances its requests has this input."""

_NO_LIMIT = 1 << 30


def with_draft_rows(inputs: StepInputs, tree: DraftTree) -> StepInputs:
    """Return the step with rows for placeholders behind the one row of each request.

    They carry token 0 and store nothing. A step that has those rows is returned as it is.
    """
    each = tree.drafts + 1
    if not tree.drafts or inputs.rows != inputs.requests:
        return inputs
    depths = np.array(tree.depths, np.int32)
    first = depths == 0
    return replace(
        inputs,
        token_ids=np.where(first, inputs.token_ids[:, None], 0).reshape(-1).astype(np.int32),
        positions=(inputs.positions[:, None] + depths).reshape(-1),
        slots=np.where(first, inputs.slots[:, None], -1).reshape(-1).astype(np.int32),
        row_request=np.repeat(inputs.row_request, each),
    )


def host_controls(
    inputs: StepInputs, names: Iterable[str], tree: DraftTree, *, drafted: int = 0
) -> dict[str, NDArray[Any]]:
    """Return a value for each control tensor: the step's own, or one that wants nothing.

    Args:
        inputs: The step, with the rows of all drafts.
        names: Inputs of the plan; caches and other names are left out.
        tree: The drafts of a request.
        drafted: How many of them a step without rows for placeholders has rows for.
    """
    requests, drafts = inputs.requests, tree.depth
    state = np.zeros((requests, STATE_COLUMNS), np.int32)
    state[inputs.row_request[::-1], State.LENGTH] = inputs.positions[::-1]  # the first row is last
    state[:, State.LIMIT] = _NO_LIMIT
    state[:, State.DRAFTED] = drafted
    known: dict[str, NDArray[Any]] = {
        "options": np.zeros((requests, OPTION_COLUMNS), np.float32),
        "state": state,
        "stop_ids": np.full((requests, STOP_COLUMNS), -1, np.int32),
        EMITTED: np.zeros((1, requests, tree.drafts + 2), np.int32),
        ANCESTORS: np.resize(np.array(tree.ancestors, np.int32), inputs.rows),
        "step": np.zeros(STEP_COLUMNS, np.int32),
        LOGIT_POSITIONS: inputs.positions[inputs.logit_rows],
        LOGIT_REQUESTS: inputs.row_request[inputs.logit_rows],
        KNOWN_TOKENS: np.full((requests, drafts), -1, np.int32),
        DRAFT_IDS: np.full((requests, drafts, DRAFT_CANDIDATES), -1, np.int32),
        DRAFT_PROBS: np.zeros((requests, drafts, DRAFT_CANDIDATES), np.float32),
        RECENT: np.full((requests, RECENT_COLUMNS), -1, np.int32),
        HIDDEN_SLOTS: np.full(inputs.rows, -1, np.int32),
        **inputs.controls(),
    }
    return {name: known[name] for name in names if name in known}


def first_rows(
    array: NDArray[Any],
    inputs: StepInputs,
    *,
    every_row: bool,
    drafts: int,
    packed: bool = False,
) -> Any:
    """Return what a step says of the rows that the host asked for.

    Args:
        array: ``[rows, ...]`` if ``every_row``, else ``[requests, ...]``, of the capacity or less.
        inputs: The step as the host gave it.
        every_row: Whether all rows have a result.
        drafts: Draft tokens of a request.
        packed: Whether the step has no rows for placeholders.
    """
    rows = inputs.requests * (drafts + 1)
    if not every_row or inputs.rows != inputs.requests:
        return array[: rows if every_row else inputs.requests]
    return array[: inputs.requests] if packed else array[:rows][:: drafts + 1]
