"""A language model whose next token depends on every token before it, and what a request gets."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.ops.sample_tokens import SampleTokens
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS, State
from ascendfx.runtime.engine.request import Request

VOCABULARY = 37
BROKEN = 36
"""Behind this token, no logit is a number."""
_MASK = (1 << 64) - 1
_IDS = np.arange(1, VOCABULARY + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def hash_of(prefix: Sequence[int]) -> int:
    """Return a number that depends on all tokens and their order."""
    found = 0x243F6A8885A308D3
    for token in prefix:
        found = ((found ^ (token + 1)) * 0x100000001B3 + 0x9E3779B9) & _MASK
        found ^= found >> 29
    return found


def logits_of(prefix: Sequence[int]) -> NDArray[np.float64]:
    """Return the logits behind the last token."""
    if prefix[-1] == BROKEN:
        return np.full(VOCABULARY, np.nan)
    mixed = _IDS ^ np.uint64(hash_of(prefix))
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(40)).astype(np.float64) / (1 << 22) - 2.0


def best(prefix: Sequence[int]) -> int:
    """Return the most likely token; 0 behind a broken one."""
    logits = logits_of(prefix)
    return 0 if np.isnan(logits).any() else int(np.argmax(logits))


def expected(request: Request, ends: frozenset[int] = frozenset()) -> tuple[tuple[int, ...], str]:
    """Return what a request gets, one token at a time and alone, and why it ends."""
    stops = (*request.stop_ids, *(ends if request.stop_at_eos else ()))
    ids = tuple(request.prompt)  # type: ignore[arg-type]
    sampling = request.sampling
    state = np.zeros(STATE_COLUMNS, np.int32)
    sampling.write_seed(state)
    seed = tuple(state.tolist())
    options = tuple(sampling.options().tolist())
    return _expected(
        ids, request.max_new_tokens, request.min_new_tokens, tuple(stops), options, seed
    )


@lru_cache(maxsize=100_000)
def _expected(
    ids: tuple[int, ...],
    limit: int,
    minimum: int,
    stops: tuple[int, ...],
    options: tuple[float, ...],
    seed: tuple[int, ...],
) -> tuple[tuple[int, ...], str]:
    state = np.array([seed], np.int32)
    state[0, State.MINIMUM] = minimum
    row = np.full((1, STOP_COLUMNS), -1, np.int32)
    row[0, : len(stops)] = stops
    new: list[int] = []
    while len(new) < limit:
        position = len(ids) + len(new) - 1
        state[0, State.LENGTH] = position
        state[0, State.GENERATED] = len(new)
        counts = counts_of(ids, new)
        token = choose(logits_of((*ids, *new))[None], options, state, row, position, counts)
        if token < 0:
            return tuple(new), "error"
        if token in stops and len(new) >= minimum:
            return tuple(new), "stop"
        new.append(token)
    return tuple(new), "length"


def counts_of(prompt: Sequence[int], new: Sequence[int]) -> NDArray[np.int32]:
    """Return what `SampleTokens` reads of a text: 2 for each new token, 1 if the prompt has it."""
    counts = 2 * np.bincount(np.array(new, np.int64), minlength=VOCABULARY).astype(np.int32)
    counts[list(prompt)] += 1
    return counts


def choose(
    logits: NDArray[Any],
    options: Sequence[float],
    state: NDArray[np.int32],
    stops: NDArray[np.int32],
    position: int,
    counts: NDArray[np.int32],
) -> int:
    (tokens,) = SampleTokens().reference(
        logits,
        np.array([options], np.float32),
        state,
        stops,
        np.array([position], np.int32),
        np.zeros(1, np.int32),
        counts[None],
    )
    return int(tokens[0])
