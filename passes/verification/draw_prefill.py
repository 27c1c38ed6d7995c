"""Draw the prefill step that a closed step is compared on: chunks of prompts."""

import numpy as np

from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import (
    HIDDEN_SLOTS,
    KNOWN_TOKENS,
    LOGIT_POSITIONS,
    LOGIT_REQUESTS,
    LOGIT_ROWS,
)
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    hidden_window,
)
from ascendfx.passes.verification.drawn_step import DrawnRequest, DrawnStep, block_table

_CHUNKS = ((0, 6), (5, 3), (3, 2))
"""Tokens before each chunk, and in it."""
_PLACES = (2, 0, 1)
_MOST = 9
"""Tokens behind the longest chunk that may be known, and drafts of a step."""


def draw_prefill(closed: Program) -> DrawnStep:
    """Return a step with a chunk that ends its prompt, one in its middle, one before its end."""
    vocabulary = bind_size(closed.main.output_types[1].shape[1], {})
    random = np.random.default_rng(0)
    requests = tuple(
        DrawnRequest(first, tuple(random.integers(0, vocabulary, count).tolist()), count)
        for first, count in _CHUNKS
    )
    table = block_table(len(requests), max(first + count for first, count in _CHUNKS) + _MOST)
    step = DrawnStep(requests, (), table)
    count = len(requests)
    rows = [(n, first + i) for n, (first, own) in enumerate(_CHUNKS) for i in range(own)]
    last = np.cumsum([own for _, own in _CHUNKS]) - 1
    owner = np.array([n for n, _ in rows])
    positions = np.array([position for _, position in rows])
    state = np.zeros((count, STATE_COLUMNS), np.int64)
    state[:, State.LENGTH] = [first for first, _ in _CHUNKS]
    state[:, State.LIMIT] = 100
    state[:, State.PLACE] = _PLACES
    options = np.zeros((count, OPTION_COLUMNS))
    options[:, Option.TOP_P] = 1
    known = random.integers(0, vocabulary, (count, _MOST))
    known[0] = -1
    known[2, 1:] = -1
    return DrawnStep(
        requests,
        (),
        table,
        {
            "token_ids": np.concatenate([request.tokens for request in requests]),
            "positions": positions,
            "slots": np.array([step.slot(n, position) for n, position in rows]),
            "row_request": owner,
            "block_table": table,
            LOGIT_ROWS: last,
            LOGIT_POSITIONS: positions[last],
            LOGIT_REQUESTS: np.arange(count),
            "options": options,
            "state": state,
            "stop_ids": np.full((count, STOP_COLUMNS), -1),
            KNOWN_TOKENS: known,
        },
    )


def with_drafts(step: DrawnStep, drafts: int) -> DrawnStep:
    """Return the step for a program with so many draft layers."""
    window = hidden_window(drafts)
    slots: list[int] = []
    for place, (first, own) in zip(_PLACES, _CHUNKS, strict=True):
        for position in range(first, first + own):
            kept = position >= first + own - window
            slots.append(place * window + position % window if kept else -1)
    known = step.controls[KNOWN_TOKENS][:, :drafts]
    controls = {**step.controls, KNOWN_TOKENS: known, HIDDEN_SLOTS: np.array(slots)}
    return DrawnStep(step.requests, step.parents, step.table, controls)
