"""Operands, launches, exact results and error bounds of the attention kernels.

Bound, with u = 2^-24, U = 2^-8 (bf16) or u, scores s, columns of v bounded by V:

* A score is a sum of K products, scaled: off by at most (K + 3) u * scale * sum |q k|.
* ``s - m`` rounds by u |s - m|, exp by 4 u, and the factors that carry old sums over T steps
  multiply 1 + (|s|max + 4) 2 u each. Together a weight is off by the factor 1 + e.
* A weight is stored with relative error U and summed before that, so numerator and denominator
  differ by at most 2 e + U relatively, which moves a mean of values by at most (2 e + U) * 2 V.
* Sums over n keys and T rescalings: (n + 3 T + 8) u V. The result is rounded once: U |out|.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS
from ascendfx.codegen.ascendc.kernels.attention_tiles import AttentionTiles
from ascendfx.codegen.ascendc.kernels.chunked_prefill_attention import ChunkedPrefillPlan
from ascendfx.codegen.ascendc.kernels.latent_decode_attention import LatentDecodePlan
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel
from tests.kernels.matmul_case import indices, store

Array = NDArray[np.generic]
Floats = NDArray[np.float64]

_U = DType.F32.unit_roundoff


@dataclass(frozen=True, slots=True)
class Expected:
    """A result and how far from it a kernel may be.

    Attributes:
        out: Exact result.
        bound: Largest error of each element.
    """

    out: Floats
    bound: Floats


def attend(
    q: Floats, k: Floats, v: Floats, scale: float, tiles: AttentionTiles, first: int | None = None
) -> Expected:
    """Return softmax(scale q k^T) v for queries ``[m, K]`` over keys ``[n, K]``.

    Query i sees all keys, or with ``first`` those up to ``first + i``.
    """
    seen = np.ones((len(q), len(k)), bool)
    if first is not None:
        seen = np.arange(len(k)) <= first + np.arange(len(q))[:, None]
    scores = scale * (q @ k.T)
    peak = np.where(seen, scores, -np.inf).max(axis=1, keepdims=True)
    weights = np.where(seen, np.exp(np.where(seen, scores - peak, 0.0)), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    out = weights @ v
    keys, columns = k.shape
    steps = -(-keys // tiles.key_tile) + 1
    largest = np.abs(scores).max(axis=1, keepdims=True)
    off = (columns + 3) * _U * abs(scale) * (np.abs(q) @ np.abs(k).T).max(axis=1, keepdims=True)
    weight = off + 2 * largest * _U + 4 * _U + steps * (largest + 4) * 2 * _U
    stored = tiles.dtype.unit_roundoff
    values = np.abs(v).max(axis=0, keepdims=True)
    bound = (2 * (2 * weight + stored) + (keys + 3 * steps + 8) * _U) * values
    return Expected(out, bound + stored * np.abs(out))


def check(actual: Array, expected: Expected) -> None:
    with np.errstate(invalid="ignore"):  # broken kernels give NaN of every kind
        error = np.abs(actual.astype(np.float64) - expected.out)
    assert not np.isnan(error).any()
    assert (error <= expected.bound).all(), (
        f"error {error.max():.3g}, {(error / expected.bound).max():.3g} of the bound"
    )


def device_sizes(**slots: int) -> NDArray[np.int32]:
    """Return the ``sizes`` tensor: rows, requests, context."""
    sizes = np.zeros(SIZES_ELEMENTS, np.int32)
    for name, value in slots.items():
        sizes[("rows", "requests", "context").index(name)] = value
    return sizes


def values(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    return random.standard_normal(shape).astype(dtype.numpy)


def run_decode(
    plan: LatentDecodePlan,
    decode: BuiltKernel,
    combine: BuiltKernel,
    positions: list[int],
    row_request: list[int],
    *,
    ancestors: list[int] | None = None,
    seed: int = 0,
    out_view: MatrixView | None = None,
    decoded_cache: bool = False,
) -> tuple[bytes, ...]:
    """Launch both kernels on a shuffled cache and compare; tokens that no row sees are NaN.

    A row at position -1 has no keys; its result is 0. Latent vectors are those that codes stand for
    if the kernel reads codes, or with ``decoded_cache``. Return sums, maxima, totals and results.
    """
    shape, rows = plan.shape, len(positions)
    random = np.random.default_rng(seed)
    capacity = shape.rows.capacity
    seen_tokens = [np.arange(position + 1) for position in positions]
    if ancestors is not None:
        seen_tokens = list(map(_path, positions, ancestors))
    latent, rope, table = _paged_cache(plan, seen_tokens, row_request, random)
    codes, scales = _codes_of(latent, shape.latent)
    if shape.codes or decoded_cache:
        latent = decoded(codes, scales, shape.dtype)
    cache = (codes, scales) if shape.codes else (latent,)
    q_latent = values(random, (shape.heads, capacity, shape.latent), shape.dtype)
    q_rope = values(random, (shape.heads, capacity, shape.rope), shape.dtype)
    arguments = {argument.name: argument for argument in decode.kernel.arguments}
    rows_of = (positions, row_request) if ancestors is None else (positions, row_request, ancestors)
    ids = np.full((len(rows_of), capacity), -1, np.int32)
    ids[:, :rows] = rows_of
    results = [
        np.full(arguments[name].elements, np.nan, np.float32)
        for name in ("partial", "maximum", "total")
    ]
    sizes = device_sizes(rows=rows)
    workspace = np.full(plan.workspace_bytes, -1, np.int8)
    stored = (
        store(shape.q_latent, q_latent, arguments["q_latent"].elements),
        store(shape.q_rope, q_rope, arguments["q_rope"].elements),
    )
    decode.launch([*stored, *cache, rope, table, *ids, *results, sizes, workspace])
    stored_out = np.full(combine.kernel.arguments[3].elements, np.nan, shape.dtype.numpy)
    combine.launch([*results, stored_out, sizes])
    view = out_view or MatrixView(0, shape.heads * shape.latent, shape.latent)
    place = indices(view, (shape.heads, capacity, shape.latent))
    out = stored_out[place].transpose(1, 0, 2)
    assert np.isnan(np.delete(stored_out, place).astype(np.float64)).all()
    q = np.concatenate((q_latent, q_rope), axis=-1).astype(np.float64)
    for row, (seen, request) in enumerate(zip(seen_tokens, row_request, strict=True)):
        if not len(seen):
            assert (out[row] == 0).all()
            continue
        place = table.reshape(shape.requests, -1)[request, seen // shape.block_tokens]
        place = place * shape.block_tokens + seen % shape.block_tokens
        v = latent.reshape(-1, shape.latent)[place].astype(np.float64)
        k = np.concatenate((v, rope.reshape(-1, shape.rope)[place].astype(np.float64)), axis=1)
        check(out[row], attend(q[:, row], k, v, np.float32(shape.scale), plan.tiles))
    assert np.isnan(out[rows:].astype(np.float64)).all()
    return tuple(tensor.tobytes() for tensor in (*results, stored_out))


def _codes_of(latent: Array, width: int) -> tuple[Array, Array]:
    """Return int8 codes and a scale per token of a cache; where that is NaN, so is the scale."""
    wide = latent.reshape(-1, width).astype(np.float32)
    scales = np.abs(wide).max(1) / np.float32(127)
    unseen = np.isnan(scales)
    codes = np.rint(wide / np.where(unseen, 1, scales)[:, None])
    return np.where(unseen[:, None], 99, codes).astype(np.int8).reshape(-1), scales


def decoded(codes: Array, scales: Array, dtype: DType) -> Array:
    """Return the numbers that codes stand for, rounded once more to a format."""
    wide = codes.reshape(scales.size, -1).astype(np.float32) * scales[:, None].astype(np.float32)
    return wide.astype(dtype.numpy).reshape(-1)


def _path(position: int, ancestors: int) -> NDArray[np.int64]:
    """Return the places of the tokens that a row in a tree sees, in the order of the text."""
    nodes = [node for node in range(31) if ancestors >> node & 1]
    before = position + 1 - len(nodes)
    return np.array([*range(before), *(before + node for node in nodes)], np.int64)


def _paged_cache(
    plan: LatentDecodePlan,
    seen_tokens: list[NDArray[np.int64]],
    row_request: list[int],
    random: np.random.Generator,
) -> tuple[Array, Array, NDArray[np.int32]]:
    shape = plan.shape
    table = random.permutation(shape.cache_blocks)[: shape.requests * shape.max_blocks]
    caches = [
        np.full((shape.cache_blocks, shape.block_tokens, width), np.nan, shape.dtype.numpy)
        for width in (shape.latent, shape.rope)
    ]
    for request in set(row_request):
        of_request = zip(seen_tokens, row_request, strict=True)
        token = np.unique(np.concatenate([seen for seen, r in of_request if r == request]))
        block = table[request * shape.max_blocks + token // shape.block_tokens]
        for cache in caches:
            rows = values(random, (len(token), cache.shape[-1]), shape.dtype)
            cache[block, token % shape.block_tokens] = rows
    return caches[0].reshape(-1), caches[1].reshape(-1), table.astype(np.int32)


def run_prefill(
    plan: ChunkedPrefillPlan, kernel: BuiltKernel, start: int, rows: int, seed: int = 0
) -> None:
    """Launch the kernel on a chunk at ``start`` and compare; unused rows are NaN."""
    shape = plan.shape
    random = np.random.default_rng(seed)
    arguments = {argument.name: argument for argument in kernel.kernel.arguments}
    context = start + rows
    tensors: dict[str, Array] = {}
    for name, _, _, columns in shape.views:
        count = rows if name.startswith("q") else context
        tensors[name] = values(random, (shape.heads, count, columns), shape.dtype)
    stored = [
        store(view, tensors[name], arguments[name].elements) for name, view, _, _ in shape.views
    ]
    k_rope = np.full((shape.context.capacity, shape.rope), np.nan, shape.dtype.numpy)
    k_rope[:context] = values(random, (context, shape.rope), shape.dtype)
    positions = np.full(shape.rows.capacity, -1, np.int32)
    positions[:rows] = np.arange(start, context)
    out = np.full((shape.rows.capacity, shape.heads, shape.value), np.nan, shape.dtype.numpy)
    sizes = device_sizes(rows=rows, context=context)
    workspace = np.full(plan.workspace_bytes, -1, np.int8)
    kernel.launch([*stored, k_rope.reshape(-1), positions, out.reshape(-1), sizes, workspace])
    wide = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    shared = k_rope[:context].astype(np.float64)
    for head in range(shape.heads):
        k = np.concatenate((wide["k_nope"][head], shared), axis=1)
        q = np.concatenate((wide["q_nope"][head], wide["q_rope"][head]), axis=1)
        scale = np.float32(shape.scale)
        if rows:
            check(out[:rows, head], attend(q, k, wide["v"][head], scale, plan.tiles, start))
    assert np.isnan(out[rows:].astype(np.float64)).all()
