"""Draw the decode step that a closed step is compared on: drafts that are accepted, and others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ascendfx.ir.draft_tree import depths_of
from ascendfx.ir.op import Array
from ascendfx.ir.ops import VerifyDrafts, VerifyTree
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import ANCESTORS, DRAFT_IDS, DRAFT_PROBS, EMITTED, RECENT
from ascendfx.ir.step_state import (
    DRAFT_CANDIDATES,
    OPTION_COLUMNS,
    RATE_ONE,
    RATE_SHIFT,
    RECENT_COLUMNS,
    RETRY_STEPS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    Finish,
    Option,
    State,
)
from ascendfx.passes.serving_steps import cache_names
from ascendfx.passes.verification.drawn_step import (
    STEPS,
    DrawnRequest,
    DrawnStep,
    block_table,
)
from ascendfx.passes.verification.serve_rows import Piece, serve

_LENGTHS = (7, 5, 3, 6, 2, 9)
"""Tokens of the requests; blocks have four."""
_FAITHFUL, _LEAF, _ALONE, _ENDED, _LIMITED, _STOPPED = range(6)
"""What the requests are for: all drafts along the spine are accepted; the last draft at the first
depth is, and no other; there are no drafts; the request has ended; it ends by its number of tokens,
or by a stop token."""
_GENERATED, _LIMIT = 3, 100
_STEP = 4
_KNOWN_RATE = RATE_ONE // 2
"""Of every request that accepted drafts before; one that had none knows nothing."""
_ADAPTIVE = (_FAITHFUL, _ALONE, _LIMITED)
"""Requests whose drafts the step chooses: by a rate that just pays for all of them once they were
accepted; by none, in the step in which one is tried all the same; and one that ends."""


def parents_of(closed: Program) -> tuple[int, ...]:
    """Return the row before each row of a request in a closed decode step."""
    for node in closed.main.nodes:
        if isinstance(node.op, VerifyTree):
            return node.op.parents
        if isinstance(node.op, VerifyDrafts):
            return tuple(range(-1, node.op.drafts))
    return ()


def draw_decode(serving: Program, closed: Program, tensors: Mapping[str, Array]) -> DrawnStep:
    """Return a step in which requests accept all drafts, some of them, or none.

    Args:
        serving: The form that the step was closed from; it says which drafts are accepted.
        closed: The step.
        tensors: The checkpoint by key.
    """
    parents = parents_of(closed)
    logits = closed.main.output_types[1]
    vocabulary = bind_size(logits.shape[1], {})
    random = np.random.default_rng(0)
    tokens = random.integers(0, vocabulary, (len(_LENGTHS), len(parents)))
    tokens[_ALONE, 1:] = 0
    requests = tuple(
        DrawnRequest(
            length=length,
            tokens=tuple(map(int, own)),
            valid=1 if number == _ALONE else len(parents),
            runs=number != _ENDED,
        )
        for number, (length, own) in enumerate(zip(_LENGTHS, tokens, strict=True))
    )
    table = block_table(len(requests), max(_LENGTHS) + len(parents) + 1)
    step = DrawnStep(requests, parents, table)
    step, stop = _accepted(step, serving, tensors)
    return replace(step, controls=_controls(step, vocabulary, stop))


def paths_of(parents: Sequence[int]) -> list[tuple[int, ...]]:
    """Return for each row the rows on the way to it, itself included."""
    paths: list[tuple[int, ...]] = []
    for row, parent in enumerate(parents):
        paths.append((*(paths[parent] if parent >= 0 else ()), row))
    return paths


def piece_of(step: DrawnStep, number: int, path: Sequence[int]) -> Piece:
    """Return the rows of a request along a path as the rows of a text."""
    request = step.requests[number]
    ids = [request.tokens[row] for row in path]
    return Piece(ids, request.length, step.blocks(number))


def main_caches(step: DrawnStep, serving: Program) -> dict[str, Array]:
    """Return the caches that the main model reads."""
    return {name: step.input(serving.main, name) for name in cache_names(serving)}


def _accepted(
    step: DrawnStep, serving: Program, tensors: Mapping[str, Array]
) -> tuple[DrawnStep, int]:
    """Return the step with drafts that are accepted, and the first token of the one that stops."""
    caches, paths = main_caches(step, serving), paths_of(step.parents)
    at = {_FAITHFUL: 0, _LEAF: 0, _LIMITED: 0, _STOPPED: 0}
    stop = -1
    for depth in range(1, max(step.depths) + 2):
        pieces = [piece_of(step, number, paths[row]) for number, row in at.items()]
        served = serve(serving, tensors, pieces, caches, noise=False)
        chosen = dict(zip(at, np.argmax(served.logits[0], axis=1).tolist(), strict=True))
        stop = chosen.get(_STOPPED, stop)
        at.pop(_STOPPED, None)
        for number, row in tuple(at.items()):
            children = [i for i, parent in enumerate(step.parents) if parent == row]
            if not children or (number == _LEAF and depth > 1):
                del at[number]
                continue
            at[number] = children[-1 if number == _LEAF else 0]
            step = _with_token(step, number, at[number], chosen[number])
        if not at:
            break
    return step, stop


def _with_token(step: DrawnStep, number: int, row: int, token: int) -> DrawnStep:
    """Return the step with a draft; another draft of the same token beside it is changed."""
    request = step.requests[number]
    tokens = [
        each
        if each != token or parent != step.parents[row]
        else each + 1
        if each == 0
        else each - 1
        for each, parent in zip(request.tokens, step.parents, strict=True)
    ]
    tokens[row] = token
    changed = replace(request, tokens=tuple(tokens))
    requests = (*step.requests[:number], changed, *step.requests[number + 1 :])
    return replace(step, requests=requests)


def _controls(step: DrawnStep, vocabulary: int, stop: int) -> dict[str, Array]:
    requests, rows = step.requests, len(step.parents)
    count, random = len(requests), np.random.default_rng(1)
    depths = np.array(depths_of(step.parents))
    lengths = np.array([request.length for request in requests])
    slots = [
        [step.slot(number, request.length + row) if request.runs else -1 for row in range(rows)]
        for number, request in enumerate(requests)
    ]
    ids = np.array([request.tokens for request in requests])
    kept = np.full((count, rows - 1, DRAFT_CANDIDATES), -1)
    kept[:, :, 0] = ids[:, 1:]
    seen = [sum(1 << row for row in path) for path in paths_of(step.parents)]
    stops = np.full((count, STOP_COLUMNS), -1)
    stops[_STOPPED, 1] = stop
    options = np.zeros((count, OPTION_COLUMNS))
    options[:, Option.TOP_P] = 1
    counter = np.zeros(STEP_COLUMNS, np.int64)
    counter[0] = _STEP
    counter[1 : depths.max() + 1] = paying_rates(int(depths.max()))
    return {
        "token_ids": ids.reshape(-1),
        "positions": (lengths[:, None] + depths).reshape(-1),
        "slots": np.array(slots).reshape(-1),
        "row_request": np.repeat(np.arange(count), rows),
        "block_table": step.table,
        "options": options,
        "state": _state(step),
        "stop_ids": stops,
        EMITTED: np.full((STEPS, count, rows + 1), -1),
        "step": counter,
        DRAFT_IDS: kept,
        DRAFT_PROBS: (kept >= 0).astype(np.float64),
        ANCESTORS: np.tile(seen, count),
        RECENT: random.integers(0, vocabulary, (count, RECENT_COLUMNS)),
    }


def paying_rates(depth: int) -> list[int]:
    """Return the least rate at which so many drafts in a row pay, up to a depth.

    The known rate pays for all but the last, and what it is behind a step whose drafts were all
    accepted pays for that one, too: neither the rate before nor a bound that is not reached does.
    """
    behind = _KNOWN_RATE + depth * (RATE_ONE - _KNOWN_RATE) // (1 << RATE_SHIFT)
    below = [_KNOWN_RATE * each // depth for each in range(1, depth)]
    return [*below, behind] if depth else []


def _state(step: DrawnStep) -> Array:
    requests = step.requests
    state = np.zeros((len(requests), STATE_COLUMNS), np.int64)
    columns: dict[int, Sequence[int]] = {
        State.LENGTH: [request.length for request in requests],
        State.GENERATED: [_GENERATED] * len(requests),
        State.LIMIT: [_LIMIT] * len(requests),
        State.DRAFTED: [request.valid - 1 for request in requests],
        State.DRAFTS: [len(step.parents) - 1] * len(requests),
        State.RATE: [_KNOWN_RATE] * len(requests),
        State.PLACE: range(len(requests)),
    }
    for column, values in columns.items():
        state[:, column] = values
    state[_LIMITED, State.LIMIT] = _GENERATED + 1
    state[_LEAF, State.DRAFTS] = 1
    state[list(_ADAPTIVE), State.ADAPTIVE] = 1
    state[_FAITHFUL, State.DRAFTS] = 0
    state[_ALONE, State.RATE], state[_ALONE, State.STEPS] = 0, RETRY_STEPS - 1
    state[_ENDED, State.FINISHED] = Finish.LIMIT
    return state
