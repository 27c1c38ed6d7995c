"""How a paged cache is cut."""

BLOCK_TOKENS = 128
"""Tokens of a cache block in the serving form.

One block table entry then covers the largest key tile of an attention kernel, so a step never
looks up two entries; a request wastes at most 127 rows per cache.
Source: the usual block on Ascend (vllm-ascend, examples/run_dp_attention_etp16.sh, --block-size).
"""


def blocks_for(tokens: int) -> int:
    """Return how many blocks hold so many tokens of one request."""
    return -(-tokens // BLOCK_TOKENS)
