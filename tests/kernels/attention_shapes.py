"""Shapes of attention problems whose operands are columns of wider tensors."""

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.chunked_prefill_attention import ChunkedPrefillShape
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import LatentDecodeShape
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.ir.tensor_type import DType


def decode_shape(
    dtype: DType,
    heads: int,
    latent: int,
    rope: int,
    *,
    rows: int = 4,
    max_blocks: int = 4,
    spread: float = 1.0,
    tree: bool = False,
    codes: bool = False,
) -> LatentDecodeShape:
    """Return a shape whose queries are columns of one wider tensor per part.

    Normal queries and keys give scores with the standard deviation ``spread``.
    """
    return LatentDecodeShape(
        rows=DeviceSize(0, rows),
        heads=heads,
        latent=latent,
        rope=rope,
        q_latent=MatrixView(0, heads * latent, latent),
        q_rope=MatrixView(8, heads * (rope + 16) + 8, rope + 16),
        cache_blocks=rows * max_blocks + 3,
        requests=rows,
        max_blocks=max_blocks,
        scale=spread * (latent + rope) ** -0.5,
        dtype=dtype,
        tree=tree,
        codes=codes,
    )


def prefill_shape(
    dtype: DType,
    heads: int,
    widths: tuple[int, int, int],
    *,
    rows: int,
    context: int,
    spread: float = 1.0,
) -> ChunkedPrefillShape:
    """Return a shape with queries and key-value pairs as columns of wider tensors.

    Normal queries and keys give scores with the standard deviation ``spread``.
    """
    nope, rope, value = widths
    query, pair = nope + rope, nope + value
    return ChunkedPrefillShape(
        rows=DeviceSize(0, rows),
        context=DeviceSize(2, context),
        heads=heads,
        nope=nope,
        rope=rope,
        value=value,
        q_nope=MatrixView(0, heads * query, query, rows * heads * query),
        q_rope=MatrixView(nope, heads * query, query, rows * heads * query),
        k_nope=MatrixView(0, heads * pair, pair, context * heads * pair),
        v=MatrixView(nope, heads * pair, pair, context * heads * pair),
        scale=spread * query**-0.5,
        dtype=dtype,
    )
