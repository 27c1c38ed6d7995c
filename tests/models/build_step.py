"""Steps whose tokens a test knows: control tensors from the requests that take part."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ascendfx.runtime.executor.step import StepInputs


@dataclass(slots=True)
class ActiveRequest:
    """A sequence of tokens while its entries are brought into the cache.

    Attributes:
        index: Place of the request in the caller's list.
        prompt: Token ids of the prompt.
        limit: Largest number of new tokens.
        blocks: Cache blocks in order.
        cached: Tokens whose entries are in the cache.
        generated: New token ids.
    """

    index: int
    prompt: tuple[int, ...]
    limit: int
    blocks: list[int] = field(default_factory=list[int])
    cached: int = 0
    generated: list[int] = field(default_factory=list[int])

    @property
    def pending(self) -> tuple[int, ...]:
        """Tokens that are known and not yet in the cache."""
        known = (*self.prompt, *self.generated)
        return known[self.cached :]


def build_step(
    requests: Sequence[ActiveRequest],
    counts: Sequence[int],
    *,
    block_tokens: int,
    table_blocks: int,
) -> StepInputs:
    """Return the step that appends ``counts[i]`` pending tokens of ``requests[i]``.

    Args:
        requests: Their blocks must already cover the new tokens.
        counts: At least 1 each.
        block_tokens: Tokens per cache block.
        table_blocks: Columns of the block table.
    """
    ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    row_request: list[int] = []
    table = np.zeros((len(requests), table_blocks), np.int32)
    for i, (request, count) in enumerate(zip(requests, counts, strict=True)):
        ids += request.pending[:count]
        table[i, : len(request.blocks)] = request.blocks
        for position in range(request.cached, request.cached + count):
            block = request.blocks[position // block_tokens]
            positions.append(position)
            slots.append(block * block_tokens + position % block_tokens)
            row_request.append(i)
    return StepInputs(
        token_ids=np.array(ids, np.int32),
        positions=np.array(positions, np.int32),
        slots=np.array(slots, np.int32),
        row_request=np.array(row_request, np.int32),
        block_table=table,
        logit_rows=np.cumsum(counts, dtype=np.int32) - 1,
        context=max(positions) + 1,
    )
