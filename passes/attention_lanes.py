"""Whether rotated queries and keys meet in an attention as the proof about rotations needs it."""

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.ops import Rotary
from ascendfx.passes.position_kinds import Rotations


def check_lanes(made: Rotations, query: Array, key: Array) -> str | set[tuple[Rotary, Rotary]]:
    """Return why a part's scores may depend on positions, or the rotations that meet in it.

    Both halves of each rotated pair of the query must stand opposite the same halves of a pair of
    the key that was rotated by the same angle, for every query token, key token and head.

    Args:
        made: What the labels mean.
        query: Labels ``[tokens, heads, lanes]``.
        key: Labels ``[tokens, key heads, lanes]``; heads share keys as in the attention.
    """
    heads = query.shape[1]
    of_head = np.repeat(key, heads // key.shape[1], axis=1)
    met: set[tuple[Rotary, Rotary]] = set()
    for t in range(len(query)):
        for j in range(len(key)):
            reason = _opposite(made, query[t], of_head[j], (t, j))
            if reason:
                return reason
            met |= _met(made, query[t], of_head[j])
    return met


def _opposite(made: Rotations, q: Array, k: Array, tokens: tuple[int, int]) -> str:
    if not np.array_equal(q > 0, k > 0):
        lonely = "query" if np.any((q > 0) & (k == 0)) else "key"
        other = "key" if lonely == "query" else "query"
        return f"a lane of the {lonely} is rotated that meets a lane of the {other} that is not"
    rotated = q > 0
    for side, labels, token in (("query", q, tokens[0]), ("key", k, tokens[1])):
        if np.any(made.token[labels[rotated]] != token):
            return f"the {side} of a token is rotated by the position of another token"
    if np.any(made.angle[q] != made.angle[k]):
        return "query and key are rotated by different tables"
    of_query, of_key = _partners(made, q), _partners(made, k)
    if of_query is None or of_key is None:
        return "one half of a rotated pair is missing, or is there twice"
    if not np.array_equal(of_query, of_key) or np.any(made.half[q] != made.half[k]):
        return "the lanes of rotated pairs of the query are not opposite those of the key"
    return ""


def _partners(made: Rotations, labels: Array) -> Array | None:
    """Return where the other half of each lane is, itself if not rotated; None if nowhere."""
    partner = np.tile(np.arange(labels.shape[-1]), (len(labels), 1))
    for head, row in enumerate(labels):
        lanes = np.flatnonzero(row)
        pair, half = made.pair[row[lanes]], made.half[row[lanes]]
        order = lanes[np.lexsort((half, pair))]
        pairs, halves = made.pair[row[order]], made.half[row[order]]
        first, second = order[0::2], order[1::2]
        whole = len(lanes) % 2 == 0 and np.array_equal(pairs[0::2], pairs[1::2])
        if not whole or halves[0::2].any() or not halves[1::2].all():
            return None
        partner[head, first], partner[head, second] = second, first
    return partner


def _met(made: Rotations, q: Array, k: Array) -> set[tuple[Rotary, Rotary]]:
    rotated = q > 0
    places = np.unique(np.stack([made.made_by[q[rotated]], made.made_by[k[rotated]]]), axis=1)
    return {(made.ops[i], made.ops[j]) for i, j in places.T}
