"""The tokens that a request has, as penalties look at them: a row of ``cache.counts``."""

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.step_names import COUNTS
from ascendfx.ir.step_state import State
from ascendfx.ir.token_choice import wants_penalties
from ascendfx.runtime.executor.step import StepExecutor

"""i32 ``[places, vocabulary]``, see `ascendfx.ir.ops.SampleTokens`."""

Ints = NDArray[np.int32]


def write_counts(
    executor: StepExecutor, place: int, tokens: Ints, state: Ints, options: NDArray[np.float32]
) -> None:
    """Count the tokens of a request that gets a place; of one without penalties nobody asks.

    Args:
        executor: Keeps the table.
        place: The row.
        tokens: Prompt and, behind it, as many new tokens as ``state`` says.
        state: Of the request.
        options: Of the request.
    """
    if not wants_penalties(options):
        return
    row = executor.caches()[COUNTS][place]
    prompt = tokens.size - int(state[State.GENERATED])
    row[:] = 0
    row[tokens[:prompt]] = 1
    np.add.at(row, tokens[prompt:], 2)


def count_first(
    executor: StepExecutor, place: int, token: int, options: NDArray[np.float32]
) -> None:
    """Count the token that a prefill gave; those of decode steps count themselves."""
    if wants_penalties(options):
        executor.caches()[COUNTS][place, token] += 2
