"""The arithmetic that both attention operations share."""

from collections.abc import Sequence

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import apply_function, holds_symbols
from ascendfx.ir.tensor_type import TensorType


def check_attention(
    mnemonic: str, queries: Sequence[TensorType], keys: Sequence[TensorType], v: TensorType
) -> TensorType:
    """Return the result type ``[b, t, h, dv]``; the batch of the keys is not compared.

    Raises:
        OpTypeError: Ranks, formats, head counts or inner sizes do not fit.
    """
    first = queries[0]
    for q, k in zip(queries, keys, strict=True):
        if (
            q.rank != 4
            or k.rank != 4
            or q.shape[-1] != k.shape[-1]
            or q.shape[:3] != first.shape[:3]
        ):
            raise OpTypeError(f"{mnemonic}: the query part {q} does not fit the key part {k}")
    heads = first.shape[2]
    for each in (*keys, v):
        if each.rank != 4 or each.dtype is not first.dtype or each.shape[:2] != keys[0].shape[:2]:
            raise OpTypeError(f"{mnemonic}: {each} does not fit {keys[0]} and {first}")
        groups = each.shape[2]
        if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups:
            raise OpTypeError(f"{mnemonic}: {groups} key heads do not divide {heads} query heads")
    return first.with_shape((*first.shape[:3], v.shape[3]))


def attend(
    queries: Sequence[Array],
    keys: Sequence[Array],
    v: Array,
    *,
    scale: float,
    mask: Array,
    visible: Array,
) -> Array:
    """Return ``softmax(scale * sum_i q_i k_i + mask) v`` as ``[b, t, h, dv]``.

    Args:
        queries: ``[b, t, h, d_i]`` each.
        keys: ``[b, s, g, d_i]`` each.
        v: ``[b, s, g, dv]``.
        scale: Factor of the scores.
        mask: Added to the scores; broadcasts to ``[b, h, t, s]``.
        visible: Truth values that broadcast to ``[b, h, t, s]``; what is not visible has weight 0.
    """
    heads = queries[0].shape[2]
    scores = (
        scale
        * sum(
            np.swapaxes(q, 1, 2) @ np.transpose(_per_head(k, heads), (0, 2, 3, 1))
            for q, k in zip(queries, keys, strict=True)
        )
        + mask
    )
    seen = np.broadcast_to(visible, scores.shape)
    if holds_symbols(scores):
        e = np.where(seen, apply_function("exp", scores), 0)
    else:
        scores = np.where(seen, scores, -np.inf)
        top = np.max(scores, axis=-1, keepdims=True)
        e = apply_function("exp", scores - np.where(top == -np.inf, 0, top))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    return np.swapaxes(weights @ np.swapaxes(_per_head(v, heads), 1, 2), 1, 2)


def _per_head(x: Array, heads: int) -> Array:
    return np.repeat(x, heads // x.shape[2], axis=2)
