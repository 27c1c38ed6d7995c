"""A prompt enters the cache in chunks; the last one gives the first token."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.cache_block import slots_of
from ascendfx.ir.step_names import HIDDEN_SLOTS, KNOWN_TOKENS, LOGIT_POSITIONS, LOGIT_REQUESTS
from ascendfx.ir.step_state import Finish, State, hidden_window
from ascendfx.runtime.engine.transfer_record import TransferRecord
from ascendfx.runtime.executor.step import StepExecutor, StepInputs
from ascendfx.runtime.number_range import first_not_finite

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class JoiningRequest:
    """A request that gets a place.

    Attributes:
        place: Which.
        tokens: Prompt, and the new tokens of a request that was there before.
        blocks: Its cache blocks, in order.
        options: Row of ``options``.
        state: Row of ``state`` before the next token; LENGTH, FINISHED and PLACE are not yet set.
        stop_ids: Row of ``stop_ids``.
        record: What a prefill elsewhere gave; None: there was none.
    """

    place: int
    tokens: Ints
    blocks: Ints
    options: NDArray[np.float32]
    state: Ints
    stop_ids: Ints
    record: TransferRecord | None = None


@dataclass(frozen=True)
class Joined:
    """What a prefill gave.

    Attributes:
        place: Place of the request.
        token: Its next token; -1: it ended without one.
        finish: Why it ended at once, if it did.
        drafts: Draft tokens behind ``token``.
        reason: What was wrong with the logits.
    """

    place: int
    token: int
    finish: Finish
    drafts: tuple[int, ...] = ()
    reason: str = ""


def prefill(
    executor: StepExecutor,
    capacities: Capacities,
    request: JoiningRequest,
    block_tokens: int,
    drafts: int,
) -> Joined:
    """Read a prompt and see whether its request goes on."""
    token, made, reason = read_prompt(executor, capacities, request, block_tokens, drafts)
    if reason:
        return Joined(request.place, -1, Finish.NOT_FINITE, reason=reason)
    return first_token(request, token, made)


def read_prompt(
    executor: StepExecutor,
    capacities: Capacities,
    request: JoiningRequest,
    block_tokens: int,
    drafts: int,
) -> tuple[int, tuple[int, ...], str]:
    """Run the chunks of a prompt one after another; the rest of a chunk comes last.

    Returns:
        The first token, the drafts behind it, and why there is none.
    """
    chunk, length = capacities.rows, request.tokens.size
    outputs = None
    for start in range(0, length, chunk):
        stop = min(start + chunk, length)
        step = _chunk(request, start, stop, block_tokens, capacities.table_blocks, drafts)
        outputs = executor.run("prefill", step)
        reason = without_meaning(outputs.logits[:1])
        if reason:
            return -1, (), reason
    assert outputs is not None, "prompts are not empty"  # noqa: S101
    token = int(outputs.next_tokens[0])
    made = tuple(int(each[0]) for each in outputs.draft_tokens)
    return token, made, "no token is possible" if token < 0 else ""


def first_token(request: JoiningRequest, token: int, drafts: tuple[int, ...]) -> Joined:
    """Return the first token as `ascendfx.ir.ops.AdvanceRequests` would emit it."""
    state, place = request.state, request.place
    generated = state[State.GENERATED]
    if generated >= state[State.MINIMUM] and token in request.stop_ids:
        return Joined(place, -1, Finish.STOP)
    full = generated + 1 >= state[State.LIMIT]
    return Joined(place, token, Finish.LIMIT if full else Finish.RUNS, drafts)


def _chunk(
    request: JoiningRequest,
    start: int,
    stop: int,
    block_tokens: int,
    table_blocks: int,
    drafts: int,
) -> StepInputs:
    positions = np.arange(start, stop, dtype=np.int32)
    table = np.zeros((1, table_blocks), np.int32)
    table[0, : request.blocks.size] = request.blocks
    state = request.state.copy()
    state[State.LENGTH] = stop - 1  # the row that is looked at is the first of its request
    state[State.PLACE] = request.place
    known = np.full((1, drafts), -1, np.int32)
    behind = request.tokens[stop : stop + drafts]
    known[0, : behind.size] = behind
    window = hidden_window(drafts)
    kept = request.place * window + positions % window
    return StepInputs(
        token_ids=request.tokens[start:stop],
        positions=positions,
        slots=slots_of(table[0], positions, block_tokens),
        row_request=np.zeros(stop - start, np.int32),
        block_table=table,
        logit_rows=np.array([stop - start - 1], np.int32),
        context=stop,
        further={
            LOGIT_POSITIONS: positions[-1:],
            LOGIT_REQUESTS: np.zeros(1, np.int32),
            "options": request.options[None],
            "state": state[None],
            "stop_ids": request.stop_ids[None],
            KNOWN_TOKENS: known,
            HIDDEN_SLOTS: np.where(positions >= stop - window, kept, -1).astype(np.int32),
        },
    )


def without_meaning(logits: NDArray[Any]) -> str:
    """Return why no token can be chosen by these rows; empty if one can."""
    place = first_not_finite(logits)
    if place is not None:
        return f"the logit of token id {place[-1]} is {float(logits[place])}"
    return "" if logits.any(axis=-1).all() else "all logits are zero"
