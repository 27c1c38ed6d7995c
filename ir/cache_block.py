"""How a paged cache is cut."""

import numpy as np

from ascendfx.ir.op import Array

BLOCK_TOKENS = 128
"""Tokens of a cache block in the serving form.

One block table entry then covers the largest key tile of an attention kernel, so a step never
looks up two entries; a request wastes at most 127 rows per cache.
Source: the usual block on Ascend (vllm-ascend, examples/run_dp_attention_etp16.sh, --block-size).
"""


def blocks_for(tokens: int) -> int:
    """Return how many blocks hold so many tokens of one request."""
    return -(-tokens // BLOCK_TOKENS)


def slots_of(table: Array, positions: Array, block: int) -> Array:
    """Return where a table of blocks puts positions; -1 where it has no block for one.

    Args:
        table: Blocks ``[..., columns]`` of requests, in order; a negative one is none.
        positions: ``[..., tokens]`` of the same requests.
        block: Tokens of a block.
    """
    column, offset = np.divmod(positions, block)
    inside = column < table.shape[-1]
    blocks = np.take_along_axis(table, np.where(inside, column, 0), axis=-1)
    return np.where(inside & (blocks >= 0), blocks * block + offset, -1)
