"""First-order bounds of the rounding error of each primitive operation, in float64.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition: sections 3.1 (sums and
products), 3.5 (matrix products), 1.6 (condition of a function).
"""

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    Add,
    Attention,
    CacheRead,
    CacheWrite,
    Cast,
    Concat,
    Cos,
    CumulativeSum,
    Divide,
    Exp,
    Expand,
    GatherRows,
    GroupedLinear,
    HeadLinear,
    Linear,
    Log,
    Matmul,
    Maximum,
    Minimum,
    Multiply,
    Negate,
    Power,
    Reciprocal,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Relu,
    Reshape,
    Rsqrt,
    ScatterAlong,
    ScatterRows,
    Select,
    Sigmoid,
    Silu,
    Sin,
    Slice,
    Softmax,
    Sqrt,
    Subtract,
    TakeAlong,
    Transpose,
)

UNIT = float(np.finfo(np.float64).eps) / 2
"""Unit roundoff of float64."""

MOVES = (
    CacheRead,
    CacheWrite,
    Cast,
    Concat,
    Expand,
    GatherRows,
    Negate,
    Reshape,
    ScatterAlong,
    ScatterRows,
    Select,
    Slice,
    TakeAlong,
    Transpose,
)


def movable(op: Op, values: list[Array], errors: list[Array]) -> list[Array]:
    """Return the operands with data replaced by its error and indices kept."""
    kept: dict[type[Op], tuple[int, ...]] = {
        CacheRead: (1,),
        CacheWrite: (1,),
        GatherRows: (1,),
        TakeAlong: (1,),
        ScatterAlong: (1,),
        ScatterRows: (1,),
        Select: (0,),
    }
    if isinstance(op, Negate):
        return [-errors[0]]
    return [values[i] if i in kept.get(type(op), ()) else errors[i] for i in range(len(values))]


_Rule = Callable[[Op, list[Array], list[Array], Array], Array]


def _product(multiply: Callable[[Array, Array], Array], terms: int) -> _Rule:
    def rule(_op: Op, v: list[Array], e: list[Array], _y: Array) -> Array:
        a, c = np.abs(v[0]), np.abs(v[1])
        whole = multiply(a + e[0], c + e[1]) - multiply(a, c)
        return whole + (terms + np.shape(v[0])[-1]) * UNIT * multiply(a, c)

    return rule


def _grouped(op: Op, v: list[Array], e: list[Array], _y: Array) -> Array:
    (exact,) = op.reference(np.abs(v[0]), np.abs(v[1]), *v[2:])
    (high,) = op.reference(np.abs(v[0]) + e[0], np.abs(v[1]) + e[1], *v[2:])
    return high - exact + (v[0].shape[-1] + 1) * UNIT * exact


def _summed(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    (total,) = op.reference(np.abs(v[0]))
    (error,) = op.reference(e[0])
    return error + (v[0].size // max(y.size, 1) + 2) * UNIT * total


def _cumulated(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    return op.reference(e[0])[0] + y.shape[0] * UNIT * op.reference(np.abs(v[0]))[0]


def _softmax(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    axis = cast("Softmax", op).axis
    finite = np.where(np.isfinite(v[0]), v[0], 0)
    worst = np.max(np.where(y > 0, e[0] + UNIT * np.abs(finite), 0), axis=axis, keepdims=True)
    return y * (np.expm1(2 * worst) + (v[0].shape[axis] + 6) * UNIT)


def _attention(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    attention = cast("Attention", op)
    parts, scale = attention.parts, abs(attention.scale)
    heads = v[0].shape[2]
    scores: Array = np.zeros(())
    inner = sum(each.shape[-1] for each in v[:parts]) + 3
    for q, k, eq, ek in zip(v[:parts], v[parts:], e[:parts], e[parts:], strict=False):
        wide = np.repeat(np.abs(k), heads // k.shape[2], axis=2)
        exact = np.einsum("bthd,bshd->bhts", np.abs(q), wide)
        more = np.repeat(ek, heads // ek.shape[2], axis=2)
        high = np.einsum("bthd,bshd->bhts", np.abs(q) + eq, wide + more)
        scores = scores + scale * (high - exact + inner * UNIT * exact)
    if attention.masked:
        mask = v[2 * parts + 1]
        scores = scores + np.where(np.abs(mask) < 1e30, e[2 * parts + 1] + UNIT * np.abs(mask), 0)
    worst = np.max(scores, axis=-1, keepdims=True)
    values = np.abs(v[2 * parts]) + e[2 * parts]
    top = np.max(values, axis=1)
    relative = np.expm1(2 * worst) + (2 * values.shape[1] + 8) * UNIT
    per_head = np.repeat(top, heads // top.shape[1], axis=1)
    error = np.max(e[2 * parts]) + relative[..., 0][..., None] * per_head[:, :, None]
    return np.swapaxes(error, 1, 2)


RULES: Mapping[type[Op], _Rule] = {
    Add: lambda _, v, e, y: e[0] + e[1] + UNIT * np.abs(y),
    Attention: _attention,
    Cos: lambda _, v, e, y: e[0] + 2 * UNIT,
    CumulativeSum: _cumulated,
    Divide: lambda _, v, e, y: (
        (e[0] + np.abs(y) * e[1]) / np.maximum(np.abs(v[1]) - e[1], 0) + UNIT * np.abs(y)
    ),
    Exp: lambda _, v, e, y: y * (np.expm1(e[0]) + 2 * UNIT),
    GroupedLinear: _grouped,
    HeadLinear: _grouped,
    Linear: _product(lambda a, c: a @ c.T, 1),
    Log: lambda _, v, e, y: e[0] / np.maximum(np.abs(v[0]) - e[0], 0) + 2 * UNIT * np.abs(y),
    Matmul: _product(lambda a, c: a @ c, 1),
    Maximum: lambda _, v, e, y: np.maximum(*np.broadcast_arrays(*e)),
    Minimum: lambda _, v, e, y: np.maximum(*np.broadcast_arrays(*e)),
    Multiply: lambda _, v, e, y: (
        np.abs(v[0]) * e[1] + np.abs(v[1]) * e[0] + e[0] * e[1] + UNIT * np.abs(y)
    ),
    Power: lambda _, v, e, y: (
        2 * np.abs(v[1]) * np.abs(v[0]) ** np.maximum(v[1] - 1, 0) * e[0] + 3 * UNIT * np.abs(y)
    ),
    Reciprocal: lambda _, v, e, y: (
        np.abs(y) * e[0] / np.maximum(np.abs(v[0]) - e[0], 0) + UNIT * np.abs(y)
    ),
    ReduceMax: lambda op, v, e, y: op.reference(e[0])[0],
    ReduceMean: _summed,
    ReduceSum: _summed,
    Relu: lambda _, v, e, y: e[0],
    Rsqrt: lambda _, v, e, y: y * e[0] / v[0] + 3 * UNIT * y,
    Sigmoid: lambda _, v, e, y: e[0] / 4 + 4 * UNIT,
    Silu: lambda _, v, e, y: 1.1 * e[0] + 5 * UNIT * np.abs(v[0]),
    Sin: lambda _, v, e, y: e[0] + 2 * UNIT,
    Softmax: _softmax,
    Sqrt: lambda _, v, e, y: e[0] / np.maximum(y, UNIT) + UNIT * y,
    Subtract: lambda _, v, e, y: e[0] + e[1] + UNIT * np.abs(y),
}
