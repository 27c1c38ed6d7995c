"""What the two families of attention ask of the tiles: for their plans, and for the search.

The search asks before there is a layout, so that it offers no attention of a width or format that
the plan would refuse.
"""

from ascendfx.codegen.ascendc.kernels.attention_tiles import MAX_KEY_TILE, TileRequest
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.tensor_type import DType

LATENT_DECODE = "latent-decode-attention"
CHUNKED_PREFILL = "chunked-prefill-attention"


def latent_request(
    dtype: DType,
    *,
    heads: int,
    latent: int,
    rope: int,
    block_tokens: int = BLOCK_TOKENS,
    codes: bool = False,
) -> TileRequest:
    """Return the request of attention to the cached vectors themselves; a lane is a head."""
    return TileRequest(
        family=LATENT_DECODE,
        dtype=dtype,
        key_widths=(latent, rope),
        value_width=latent,
        values_are_keys=True,
        lanes=heads,
        key_limit=block_tokens,
        causal=False,
        codes=codes,
    )


def chunk_request(dtype: DType, *, rows: int, nope: int, rope: int, value: int) -> TileRequest:
    """Return the request of attention to expanded keys; a lane is a query row."""
    return TileRequest(
        family=CHUNKED_PREFILL,
        dtype=dtype,
        key_widths=(nope, rope),
        value_width=value,
        values_are_keys=False,
        lanes=rows,
        key_limit=MAX_KEY_TILE,
        causal=True,
    )
