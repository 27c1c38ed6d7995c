"""Running error analysis: exact float64 values together with a bound on what f32 may get wrong.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.3. Every f32
operation adds u = 2^-24 of its result; exp and log of the emulated vector unit add 4 u.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.tensor_type import DType
from tests.kernels.vector_case import Floats

_U = DType.F32.unit_roundoff
_FUNCTION = 4 * _U


@dataclass(frozen=True)
class Bounded:
    """Values and the largest error of each."""

    value: Floats
    error: Floats

    def rounded(self, unit: float = _U) -> "Bounded":
        """Return the bound after one more rounding."""
        return Bounded(self.value, self.error + unit * (np.abs(self.value) + self.error))

    def map(self, function: Callable[[Floats], Floats]) -> "Bounded":
        """Move elements."""
        return Bounded(function(self.value), function(self.error))

    def __neg__(self) -> "Bounded":
        return Bounded(-self.value, self.error)

    def __add__(self, other: "Bounded") -> "Bounded":
        return Bounded(self.value + other.value, self.error + other.error).rounded()

    def __sub__(self, other: "Bounded") -> "Bounded":
        return self + -other

    def __mul__(self, other: "Bounded") -> "Bounded":
        a, b = np.abs(self.value), np.abs(other.value)
        error = a * other.error + b * self.error + self.error * other.error
        return Bounded(self.value * other.value, error).rounded()

    def __truediv__(self, other: "Bounded") -> "Bounded":
        value = self.value / other.value
        left = np.maximum(np.abs(other.value) - other.error, 1e-300)
        return Bounded(value, (self.error + np.abs(value) * other.error) / left).rounded()

    def sqrt(self) -> "Bounded":
        value = np.sqrt(self.value)
        low = value - np.sqrt(np.maximum(self.value - self.error, 0))
        return Bounded(value, low).rounded()

    def exp(self) -> "Bounded":
        with np.errstate(over="ignore"):
            value = np.exp(self.value)
            return Bounded(value, value * np.expm1(self.error)).rounded(_FUNCTION)

    def log(self) -> "Bounded":
        value = np.log(self.value)
        error = value - np.log(self.value - self.error)
        return Bounded(value, error).rounded(_FUNCTION)

    def sum(self) -> "Bounded":
        value = self.value.sum(axis=-1, keepdims=True)
        error = self.error.sum(axis=-1, keepdims=True)
        absolute = np.abs(self.value).sum(axis=-1, keepdims=True) + error
        return Bounded(value, error + self.value.shape[-1] * _U * 1.01 * absolute)

    def max(self) -> "Bounded":
        return Bounded(
            self.value.max(axis=-1, keepdims=True), self.error.max(axis=-1, keepdims=True)
        )


def number(value: float) -> Bounded:
    """Return a constant, which f32 rounds once."""
    return Bounded(np.asarray(value), np.asarray(_U * abs(value)))


def _silu(a: Bounded) -> Bounded:
    return a / (number(1.0) + (-a).exp())


def _rms_norm(op: Op, x: Bounded, gain: Bounded) -> Bounded:
    assert isinstance(op, ops.RmsNorm)
    mean = (x * x).sum() / number(x.value.shape[-1])
    inverse = number(1.0) / (mean + number(op.eps)).sqrt()
    return x * inverse * gain


def _softmax(op: Op, a: Bounded) -> Bounded:
    del op
    powers = (a - a.max()).exp()
    return powers / powers.sum()


def _rotary(op: Op, x: Bounded, cos: Bounded, sin: Bounded) -> Bounded:
    assert isinstance(op, ops.Rotary)
    half = x.value.shape[-1] // 2
    if op.interleaved_in:
        u, v = x.map(lambda t: t[..., ::2]), x.map(lambda t: t[..., 1::2])
    else:
        u, v = x.map(lambda t: t[..., :half]), x.map(lambda t: t[..., half:])
    pair = (u * cos - v * sin, v * cos + u * sin)
    if op.interleaved_out:
        shape = x.value.shape
        return Bounded(
            np.stack([pair[0].value, pair[1].value], axis=-1).reshape(shape),
            np.stack([pair[0].error, pair[1].error], axis=-1).reshape(shape),
        )
    return _concat(*pair)


def _concat(*parts: Bounded) -> Bounded:
    return Bounded(
        np.concatenate([p.value for p in parts], axis=-1),
        np.concatenate([p.error for p in parts], axis=-1),
    )


def _power(op: Op, a: Bounded, exponent: Bounded) -> Bounded:
    del op
    twice = int(2 * exponent.value)
    result = a.sqrt() if twice % 2 else number(1.0)
    for _ in range(abs(twice) // 2):
        result = result * a
    return result if twice > 0 else number(1.0) / result


def _extreme(op: Op, a: Bounded, b: Bounded) -> Bounded:
    value = op.reference(a.value, b.value)[0]
    return Bounded(value, np.broadcast_to(np.maximum(a.error, b.error), value.shape))


def _reduce_max(op: Op, a: Bounded) -> Bounded:
    assert isinstance(op, ops.ReduceMax)
    return a.max() if op.keep else a.max().map(lambda t: t[..., 0])


def _reduce_sum(op: Op, a: Bounded) -> Bounded:
    assert isinstance(op, ops.ReduceSum | ops.ReduceMean)
    total = a.sum()
    if isinstance(op, ops.ReduceMean):
        total = total / number(a.value.shape[-1])
    return total if op.keep else total.map(lambda t: t[..., 0])


def _move(op: Op, a: Bounded) -> Bounded:
    return a.map(lambda t: op.reference(t)[0])


RULES: Mapping[type[Op], Callable[..., Bounded]] = {
    ops.Add: lambda _, a, b: a + b,
    ops.Subtract: lambda _, a, b: a - b,
    ops.Multiply: lambda _, a, b: a * b,
    ops.Divide: lambda _, a, b: a / b,
    ops.Maximum: _extreme,
    ops.Minimum: _extreme,
    ops.Negate: lambda _, a: -a,
    ops.Cast: lambda _, a: a,
    ops.Sqrt: lambda _, a: a.sqrt(),
    ops.Rsqrt: lambda _, a: number(1.0) / a.sqrt(),
    ops.Reciprocal: lambda _, a: number(1.0) / a,
    ops.Exp: lambda _, a: a.exp(),
    ops.Log: lambda _, a: a.log(),
    ops.Relu: lambda _, a: Bounded(np.maximum(a.value, 0), a.error),
    ops.Sigmoid: lambda _, a: number(1.0) / (number(1.0) + (-a).exp()),
    ops.Silu: lambda _, a: _silu(a),
    ops.Swiglu: lambda _, a, b: _silu(a) * b,
    ops.Power: _power,
    ops.RmsNorm: _rms_norm,
    ops.Softmax: _softmax,
    ops.Rotary: _rotary,
    ops.ReduceMax: _reduce_max,
    ops.ReduceMean: _reduce_sum,
    ops.ReduceSum: _reduce_sum,
    ops.Slice: _move,
    ops.Reshape: _move,
    ops.Expand: _move,
    ops.Concat: lambda _, *parts: _concat(*parts),
}


def bound_graph(graph: Graph, given: Mapping[Value, Floats]) -> list[Bounded]:
    """Return the bounded outputs of ``graph`` for values of its inputs and parameters.

    The graph's sizes must be numbers.
    """
    results: dict[Value, Bounded] = {}
    for position, node in enumerate(graph.nodes):
        value = Value(position)
        if value in given:
            results[value] = Bounded(given[value], np.zeros_like(given[value]))
        else:
            results[value] = _bound(node, [results[each] for each in node.operands])
    return [results[each] for each in graph.outputs]


def _bound(node: Node, operands: list[Bounded]) -> Bounded:
    if isinstance(node.op, ops.Constant):
        return number(float(node.op.value))
    return RULES[type(node.op)](node.op, *operands)
