"""Prefill in chunks and decode of several texts, and how far rounding may move the logits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.lowering.tabulate_positions import TabulatePositions
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.runtime.executor.step import Executor
from ascendfx.runtime.limits import Limits
from tests.lowering.rounding_noise import noise_bounds
from tests.models.build_step import ActiveRequest
from tests.models.teacher_forcing import run_step

LIMITS = Limits(max_batch=3, max_context=256, prefill_chunk=48, cache_blocks=6)
DECODED = 4
"""Tokens of each text that are fed one by one, in a batch."""
LENGTHS = (131, 21, DECODED + 1)
"""Tokens of the texts: the first crosses a cache block while it is decoded."""

Logits = NDArray[np.float64]


@dataclass(frozen=True)
class Observed:
    """Logits that the kernels gave.

    Attributes:
        positions: Of each row, in the text.
        logits: ``[rows, vocabulary]``.
    """

    positions: list[int]
    logits: list[Logits]


def texts(vocabulary: int) -> list[tuple[int, ...]]:
    """Return token ids of the lengths above."""
    random = np.random.default_rng(vocabulary)
    return [tuple(random.integers(0, vocabulary, length).tolist()) for length in LENGTHS]


def serve(executor: Executor, given: Sequence[Sequence[int]]) -> list[Observed]:
    """Prefill each text in chunks, decode the rest of all of them together."""
    requests = [ActiveRequest(i, tuple(text), 1) for i, text in enumerate(given)]
    for request, blocks in zip(requests, ([4, 1], [2], [5]), strict=True):
        request.blocks = blocks
    observed = [Observed([], []) for _ in given]
    for request, seen in zip(requests, observed, strict=True):
        end = len(request.prompt) - DECODED
        while request.cached < end:
            count = min(LIMITS.prefill_chunk, end - request.cached)
            seen.logits.append(run_step(executor, "prefill", [request], [count])[0])
            seen.positions.append(request.cached - 1)
    for _ in range(DECODED):
        logits = run_step(executor, "decode", requests, [1] * len(requests))
        for request, seen, row in zip(requests, observed, logits, strict=True):
            seen.logits.append(row)
            seen.positions.append(request.cached - 1)
    return observed


def rounding(
    program: Program, tensors: Mapping[str, Any], text: Sequence[int], positions: Sequence[int]
) -> tuple[Logits, float]:
    """Return the logits of a text in one step in float64, and how far float32 may move them.

    The step has as many requests as logits are wanted; all of them own the same blocks.
    """
    tables = TabulatePositions(LIMITS.max_context).run(program).program
    prepared = FoldWeights().run(tables).program
    rows = len(text)
    table = np.tile(np.arange(LIMITS.table_blocks), (len(positions), 1))
    inputs: dict[str, Any] = {
        "token_ids": np.array(text),
        "positions": np.arange(rows),
        "slots": np.arange(rows),
        "row_request": np.zeros(rows, np.int64),
        "block_table": table,
        "logit_rows": np.array(positions),
    }
    for name, kind in prepared.main.input_types.items():
        if name.startswith("cache."):
            shape = [bind_size(size, {"blocks": LIMITS.table_blocks}) for size in kind.shape]
            inputs[name] = np.zeros(shape)
    exact, bounds = noise_bounds(prepared, tensors, inputs, (rows, len(positions), rows))
    return exact[1], float(bounds[1])
