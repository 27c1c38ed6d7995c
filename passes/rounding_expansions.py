"""Rounding bounds of fused operations: the bounds of the primitive steps they stand for."""

from collections.abc import Callable
from functools import reduce

import numpy as np

from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    Add,
    Attention,
    CombineExperts,
    Concat,
    Divide,
    GatherRows,
    Matmul,
    Multiply,
    RaggedAttention,
    ReduceMean,
    ReduceSum,
    Reshape,
    RmsNorm,
    Rotary,
    RouteTopk,
    Sigmoid,
    Silu,
    Slice,
    Softmax,
    Sqrt,
    Subtract,
    Swiglu,
    TakeAlong,
    Transpose,
)
from ascendfx.ir.ops.ragged_attention import seen_places

Bounded = tuple[Array, Array]
"""A value and a bound of its absolute error."""

Step = Callable[..., Bounded]
"""Applies one operation to bounded operands."""


def exact(value: object) -> Bounded:
    """Return a value without error."""
    array = np.asarray(value)
    return array, np.zeros(array.shape)


def _rms_norm(step: Step, op: RmsNorm, x: Bounded, gain: Bounded) -> Bounded:
    square = step(Multiply(), x, x)
    mean = step(ReduceMean((x[0].ndim - 1,)), square)
    root = step(Sqrt(), step(Add(), mean, exact(op.eps)))
    return step(Multiply(), step(Divide(), x, root), gain)


def _swiglu(step: Step, _op: Swiglu, gate: Bounded, up: Bounded) -> Bounded:
    return step(Multiply(), step(Silu(), gate), up)


def _rotary(step: Step, op: Rotary, x: Bounded, cos: Bounded, sin: Bounded) -> Bounded:
    axis, columns = x[0].ndim - 1, x[0].shape[-1]
    half = columns // 2
    parts = (
        (Slice(axis, 0, columns, 2), Slice(axis, 1, columns, 2))
        if op.interleaved_in
        else (Slice(axis, 0, half), Slice(axis, half, columns))
    )
    u, v = (step(part, x) for part in parts)
    pair = (
        step(Subtract(), step(Multiply(), u, cos), step(Multiply(), v, sin)),
        step(Add(), step(Multiply(), v, cos), step(Multiply(), u, sin)),
    )
    if not op.interleaved_out:
        return step(Concat(axis), *pair)
    stacked = [step(Reshape((*x[0].shape[:-1], half, 1)), each) for each in pair]
    return step(Reshape(x[0].shape), step(Concat(axis + 1), *stacked))


def _combine(
    step: Step, _op: CombineExperts, y: Bounded, place: Bounded, weights: Bounded
) -> Bounded:
    shape = weights[0].shape
    moved = step(Reshape((*shape, y[0].shape[1])), step(GatherRows(), y, place))
    factors = step(Reshape((*shape, 1)), weights)
    return step(ReduceSum((1,), keep=False), step(Multiply(), moved, factors))


def _route(step: Step, op: RouteTopk, logits: Bounded, *bias: Bounded) -> Bounded:
    axis = logits[0].ndim - 1
    scores = step(Sigmoid() if op.scoring == "sigmoid" else Softmax(axis), logits)
    ids = op.reference(logits[0], *(each[0] for each in bias))[1]
    weights = step(TakeAlong(axis), scores, exact(ids))
    if op.normalize:
        total = step(Add(), step(ReduceSum((axis,)), weights), exact(1e-20))
        weights = step(Divide(), weights, total)
    return step(Multiply(), weights, exact(op.scale))


def _attention(step: Step, op: Attention, *operands: Bounded) -> Bounded:
    queries, keys, values, mask = op.roles(operands)
    heads = queries[0][0].shape[2]
    products = [
        step(
            Matmul(),
            step(Transpose((0, 2, 1, 3)), q),
            step(Transpose((0, 2, 3, 1)), _per_head(k, heads)),
        )
        for q, k in zip(queries, keys, strict=True)
    ]
    scores = reduce(lambda a, b: step(Add(), a, b), products)
    scores = step(Multiply(), scores, exact(op.scale))
    if mask is not None:
        scores = step(Add(), scores, mask)
    if op.causal:
        value, error = scores
        hidden = ~np.tril(np.ones(value.shape[-2:], bool))
        scores = np.where(hidden, -np.inf, value), np.where(hidden, 0, error)
    rows = step(Transpose((0, 2, 1, 3)), _per_head(values, heads))
    return step(Transpose((0, 2, 1, 3)), step(Matmul(), step(Softmax(3), scores), rows))


def _per_head(x: Bounded, heads: int) -> Bounded:
    value, error = x
    copies = heads // value.shape[2]
    return np.repeat(value, copies, axis=2), np.repeat(error, copies, axis=2)


def _ragged(step: Step, op: RaggedAttention, *operands: Bounded) -> Bounded:
    queries, keys, values, (positions, _), (requests, _), tree = op.roles(operands)
    ancestors = None if tree is None else tree[0]
    whole = Attention(op.parts, op.scale)
    rows = [
        step(
            whole,
            *((q[None, r : r + 1], e[None, r : r + 1]) for q, e in queries),
            *(
                (k[request : request + 1][:, seen], e[request : request + 1][:, seen])
                for k, e in (*keys, values)
            ),
        )
        for r, (seen, request) in enumerate(
            zip(seen_places(positions, ancestors), requests, strict=True)
        )
    ]
    value, error = (np.concatenate([row[i] for row in rows], axis=1)[0] for i in (0, 1))
    return value, error


EXPANSIONS: dict[type[Op], Callable[..., Bounded]] = {
    Attention: _attention,
    CombineExperts: _combine,
    RaggedAttention: _ragged,
    RmsNorm: _rms_norm,
    Rotary: _rotary,
    RouteTopk: _route,
    Swiglu: _swiglu,
}
"""Called with `Step`, the operation and its bounded operands; the bound of the first result."""
