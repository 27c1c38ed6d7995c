"""ATen calls that are formulas of several of our operations.

Norms compute in float32 where the operand is narrower, and round once, as PyTorch does.
"""

import math
from typing import Any

from ascendfx.ir.capture.translation import Handler, Result, Translation
from ascendfx.ir.graph import Value
from ascendfx.ir.ops.add import Add
from ascendfx.ir.ops.multiply import Multiply
from ascendfx.ir.ops.reduce_mean import ReduceMean
from ascendfx.ir.ops.rsqrt import Rsqrt
from ascendfx.ir.ops.sigmoid import Sigmoid
from ascendfx.ir.ops.subtract import Subtract
from ascendfx.ir.tensor_type import DType, TensorType


def tanh(t: Translation, out: TensorType, a: Any) -> Result:
    """``tanh(a) = 2 sigmoid(2 a) - 1``."""
    two, one = t.constant(2, out.dtype), t.constant(1, out.dtype)
    doubled = t.add(Multiply(), t.operand(a, out.dtype), two)
    return t.add(Subtract(), t.add(Multiply(), t.add(Sigmoid(), doubled), two), one)


def gelu(t: Translation, out: TensorType, a: Any, *, approximate: str = "none") -> Result:
    """``a/2 (1 + tanh u) = a sigmoid(2 u)`` with ``u = sqrt(2/pi) (a + 0.044715 a^3)``.

    Source: PyTorch documentation of ``torch.nn.GELU``.
    """
    if approximate != "tanh":
        raise t.refuse(
            "the error function is not available", hint="use the approximation of GELU by tanh"
        )
    value = t.operand(a, out.dtype)
    square = t.add(Multiply(), value, value)
    factor = t.add(Multiply(), square, t.constant(0.044715, out.dtype))
    inner = t.add(Multiply(), value, t.add(Add(), factor, t.constant(1, out.dtype)))
    doubled = t.add(Multiply(), inner, t.constant(2 * math.sqrt(2 / math.pi), out.dtype))
    return t.add(Multiply(), value, t.add(Sigmoid(), doubled))


def rms_norm(
    t: Translation, out: TensorType, a: Any, shape: list[Any], weight: Any = None, eps: Any = None
) -> Result:
    """``a / sqrt(mean a^2 + eps) * weight`` over the last axes.

    Without ``eps`` it is the distance of 1 and the next number of the format PyTorch computes in,
    whatever its documentation says (tried in 2.13).
    """
    added = 2 * _wide(out).unit_roundoff if eps is None else eps
    wide = t.operand(a, _wide(out))
    return _scaled(t, out, _normalised(t, wide, len(shape), added), weight, None)


def layer_norm(
    t: Translation,
    out: TensorType,
    a: Any,
    shape: list[Any],
    weight: Any = None,
    *rest: Any,
) -> Result:
    """``(a - mean) / sqrt(variance + eps) * weight + bias`` over the last axes."""
    bias = rest[0] if rest else None
    eps = rest[1] if len(rest) > 1 else 1e-5
    wide = t.operand(a, _wide(out))
    axes = _last_axes(t, wide, len(shape))
    centred = t.add(Subtract(), wide, t.add(ReduceMean(axes), wide))
    return _scaled(t, out, _normalised(t, centred, len(shape), eps), weight, bias)


def _wide(out: TensorType) -> DType:
    return DType.F64 if out.dtype is DType.F64 else DType.F32


def _last_axes(t: Translation, value: Value, count: int) -> tuple[int, ...]:
    rank = t.type_of(value).rank
    return tuple(range(rank - count, rank))


def _normalised(t: Translation, value: Value, count: int, eps: float) -> Value:
    square = t.add(Multiply(), value, value)
    mean = t.add(ReduceMean(_last_axes(t, value, count)), square)
    shifted = t.add(Add(), mean, t.constant(eps, t.type_of(value).dtype))
    return t.add(Multiply(), value, t.add(Rsqrt(), shifted))


def _scaled(t: Translation, out: TensorType, value: Value, weight: Any, bias: Any) -> Value:
    dtype = t.type_of(value).dtype
    if weight is not None:
        value = t.add(Multiply(), value, t.operand(weight, dtype))
    if bias is not None:
        value = t.add(Add(), value, t.operand(bias, dtype))
    return t.cast(value, out.dtype)


COMPOUND: dict[str, Handler] = {
    "aten.gelu.default": gelu,
    "aten.layer_norm.default": layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten.tanh.default": tanh,
}
