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
    Round,
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
from ascendfx.ir.tensor_type import DType

UNIT = DType.F64.unit_roundoff
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


_Rule = Callable[[Op, list[Array], list[Array], Array, float], Array]
"""Operation, operands, their errors, the result and the unit roundoff; returns the error."""


def _product(multiply: Callable[[Array, Array], Array], terms: int) -> _Rule:
    def rule(_op: Op, v: list[Array], e: list[Array], _y: Array, u: float) -> Array:
        a, c = np.abs(v[0]), np.abs(v[1])
        whole = multiply(a + e[0], c + e[1]) - multiply(a, c)
        return whole + (terms + np.shape(v[0])[-1]) * u * multiply(a, c)

    return rule


def _grouped(op: Op, v: list[Array], e: list[Array], _y: Array, u: float) -> Array:
    (exact,) = op.reference(np.abs(v[0]), np.abs(v[1]), *v[2:])
    (high,) = op.reference(np.abs(v[0]) + e[0], np.abs(v[1]) + e[1], *v[2:])
    return high - exact + (v[0].shape[-1] + 1) * u * exact


def _summed(op: Op, v: list[Array], e: list[Array], y: Array, u: float) -> Array:
    (total,) = op.reference(np.abs(v[0]))
    (error,) = op.reference(e[0])
    return error + (v[0].size // max(y.size, 1) + 2) * u * total


def _cumulated(op: Op, v: list[Array], e: list[Array], y: Array, u: float) -> Array:
    return op.reference(e[0])[0] + y.shape[0] * u * op.reference(np.abs(v[0]))[0]


def _softmax(op: Op, v: list[Array], e: list[Array], y: Array, u: float) -> Array:
    """Bound by the errors of the exponents: each its own, and the average of all in the sum.

    The subtracted maximum is one of the values and the same everywhere, so that its error cancels.
    """
    axis = cast("Softmax", op).axis
    top = np.max(v[0], axis=axis, keepdims=True)
    seen = np.isfinite(v[0]) & (y > 0)
    exponents = np.where(seen, e[0] + u * np.abs(np.where(seen, v[0] - top, 0)), 0)
    own = np.expm1(exponents)
    average = np.sum(y * own, axis=axis, keepdims=True)
    return y * (own + average + own * average + (v[0].shape[axis] + 6) * u)


def _larger(v: list[Array], e: list[Array], y: Array) -> Array:
    """Bound the error of a maximum: between those of the lower and the upper bounds."""
    high = np.maximum(v[0] + e[0], v[1] + e[1])
    low = np.maximum(v[0] - e[0], v[1] - e[1])
    return np.where(np.isfinite(y), np.maximum(high - y, y - low), 0)


def _largest(op: Op, v: list[Array], e: list[Array], y: Array) -> Array:
    known = np.isfinite(v[0])
    (high,), (low,) = (op.reference(np.where(known, v[0] + s * e[0], v[0])) for s in (1, -1))
    return np.where(np.isfinite(y), np.maximum(high - y, y - low), 0)


def _silu_slope(x: Array) -> Array:
    s = 1 / (1 + np.exp(-x))
    return s * (1 + np.abs(x) * (1 - s))


RULES: Mapping[type[Op], _Rule] = {
    Add: lambda _, v, e, y, u: e[0] + e[1] + u * np.abs(y),
    Cos: lambda _, v, e, y, u: e[0] + 2 * u,
    CumulativeSum: _cumulated,
    Divide: lambda _, v, e, y, u: (
        (e[0] + np.abs(y) * e[1]) / np.maximum(np.abs(v[1]) - e[1], 0) + u * np.abs(y)
    ),
    Exp: lambda _, v, e, y, u: y * (np.expm1(e[0]) + 2 * u),
    GroupedLinear: _grouped,
    HeadLinear: _grouped,
    Linear: _product(lambda a, c: a @ c.T, 1),
    Log: lambda _, v, e, y, u: e[0] / np.maximum(np.abs(v[0]) - e[0], 0) + 2 * u * np.abs(y),
    Matmul: _product(lambda a, c: a @ c, 1),
    Maximum: lambda _, v, e, y, u: _larger(v, e, y),
    Minimum: lambda _, v, e, y, u: _larger([-v[0], -v[1]], e, -y),
    Multiply: lambda _, v, e, y, u: (
        np.abs(v[0]) * e[1] + np.abs(v[1]) * e[0] + e[0] * e[1] + u * np.abs(y)
    ),
    Power: lambda _, v, e, y, u: (
        2 * np.abs(v[1]) * np.abs(v[0]) ** np.maximum(v[1] - 1, 0) * e[0] + 3 * u * np.abs(y)
    ),
    Reciprocal: lambda _, v, e, y, u: (
        np.abs(y) * e[0] / np.maximum(np.abs(v[0]) - e[0], 0) + u * np.abs(y)
    ),
    ReduceMax: lambda op, v, e, y, u: _largest(op, v, e, y),
    ReduceMean: _summed,
    ReduceSum: _summed,
    Relu: lambda _, v, e, y, u: np.where(v[0] > 0, e[0], np.maximum(v[0] + e[0], 0)),
    Round: lambda _, v, e, y, u: np.maximum(np.rint(v[0] + e[0]) - y, y - np.rint(v[0] - e[0])),
    Rsqrt: lambda _, v, e, y, u: y * e[0] / v[0] + 3 * u * y,
    Sigmoid: lambda _, v, e, y, u: y * ((1 - y) * np.expm1(e[0]) + 4 * u),
    Silu: lambda _, v, e, y, u: _silu_slope(v[0]) * np.expm1(e[0]) + 5 * u * np.abs(y),
    Sin: lambda _, v, e, y, u: e[0] + 2 * u,
    Softmax: _softmax,
    Sqrt: lambda _, v, e, y, u: e[0] / np.maximum(y, u) + u * y,
    Subtract: lambda _, v, e, y, u: e[0] + e[1] + u * np.abs(y),
}
