"""Logits of every position of given texts, by the steps an engine would run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.cache_block import BLOCK_TOKENS, blocks_for
from ascendfx.runtime.executor.step import Executor
from tests.models.build_step import ActiveRequest, build_step


def _requests(texts: Sequence[Sequence[int]], blocks: int) -> list[ActiveRequest]:
    """Return requests whose blocks are dealt out in reverse, so that the table matters."""
    free = list(range(blocks))
    requests = [ActiveRequest(i, tuple(text), 1) for i, text in enumerate(texts)]
    for request in requests:
        request.blocks = [free.pop() for _ in range(blocks_for(len(request.prompt)))]
    return requests


def decode_logits(executor: Executor, texts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return ``[texts, tokens, vocabulary]``: all texts advance together, a token per step."""
    capacities = executor.capacities("decode")
    requests = _requests(texts, capacities.blocks)
    ones = [1] * len(requests)
    steps = [run_step(executor, "decode", requests, ones) for _ in range(len(texts[0]))]
    return np.stack(steps, axis=1)


def chunk_logits(
    executor: Executor, text: Sequence[int], counts: Sequence[int]
) -> NDArray[np.float64]:
    """Return ``[chunks, vocabulary]``: the logits behind each prefill chunk of one text."""
    (request,) = _requests([text], executor.capacities("prefill").blocks)
    return np.concatenate([run_step(executor, "prefill", [request], [count]) for count in counts])


def run_step(
    executor: Executor, plan: str, requests: Sequence[ActiveRequest], counts: Sequence[int]
) -> NDArray[Any]:
    step = build_step(
        requests,
        counts,
        block_tokens=BLOCK_TOKENS,
        table_blocks=executor.capacities(plan).table_blocks,
    )
    outputs = executor.run(plan, step)
    np.testing.assert_array_equal(outputs.next_tokens, np.argmax(outputs.logits, axis=-1))
    for request, count in zip(requests, counts, strict=True):
        request.cached += count
    return outputs.logits.astype(np.float64)
