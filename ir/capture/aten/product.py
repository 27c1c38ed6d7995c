"""ATen calls that are matrix products, plain, batched, grouped or inside attention."""

import math
from typing import Any

from ascendfx.ir.capture.translation import Handler, Result, Translation
from ascendfx.ir.graph import Value
from ascendfx.ir.ops.add import Add
from ascendfx.ir.ops.greater import Greater
from ascendfx.ir.ops.grouped_linear import GroupedLinear
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.iota import Iota
from ascendfx.ir.ops.less_equal import LessEqual
from ascendfx.ir.ops.linear import Linear
from ascendfx.ir.ops.matmul import Matmul
from ascendfx.ir.ops.multiply import Multiply
from ascendfx.ir.ops.param import Param
from ascendfx.ir.ops.reduce_max import ReduceMax
from ascendfx.ir.ops.select import Select
from ascendfx.ir.ops.softmax import Softmax
from ascendfx.ir.ops.transpose import Transpose
from ascendfx.ir.tensor_type import DType, TensorType


def linear(t: Translation, out: TensorType, x: Any, weight: Any, bias: Any = None) -> Result:
    """``x W^T + b``."""
    y = t.add(Linear(), t.operand(x, out.dtype), t.operand(weight, out.dtype))
    return y if bias is None else t.add(Add(), y, t.operand(bias, out.dtype))


def matmul(t: Translation, out: TensorType, a: Any, b: Any) -> Result:
    """``a b`` over the last two axes; a vector is a row on the left, a column on the right."""
    left, right = t.operand(a, out.dtype), t.operand(b, out.dtype)
    if t.type_of(left).rank == 1:
        left = t.reshape(left, (1, *t.type_of(left).shape))
    if t.type_of(right).rank == 1:
        right = t.reshape(right, (*t.type_of(right).shape, 1))
    return t.reshape(t.add(Matmul(), left, right), out.shape)


def add_matmul(
    t: Translation, out: TensorType, c: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1
) -> Result:
    """``c + a b``."""
    if beta != 1 or alpha != 1:
        raise t.refuse(f"beta {beta} and alpha {alpha} other than 1")
    return t.add(Add(), t.operand(c, out.dtype), matmul(t, out, a, b))


def grouped_matmul(
    t: Translation,
    out: TensorType,
    x: Any,
    weight: Any,
    ends: Any = None,
    *_: Any,
    **_keywords: Any,
) -> Result:
    """Rows sorted by group, each group times its own matrix ``[e, k, n]``."""
    rows, table = t.operand(x, out.dtype), t.operand(weight, out.dtype)
    if ends is None or t.type_of(rows).rank != 2 or t.type_of(table).rank != 3:
        raise t.refuse("only rows [p, k] with weights [e, k, n] and group ends can be represented")
    return t.add(GroupedLinear(), rows, _exchanged(t, table), ends)


def _exchanged(t: Translation, weight: Value) -> Value:
    """Return ``[e, n, k]``; a transposition that the model added is taken back."""
    op = t.builder.op_of(weight)
    if isinstance(op, Transpose) and op.permutation == (0, 2, 1):
        return t.builder.operands_of(weight)[0]
    return t.transpose(weight, (0, 2, 1))


def attention(  # noqa: PLR0917  # the order is ATen's
    t: Translation,
    out: TensorType,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,  # noqa: FBT001, FBT002  # the argument order is ATen's
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Result:
    """``softmax(q k^T scale + mask) v`` as separate nodes.

    A query that may see nothing gets zeros. That is written out only where the mask depends on
    tensors; one made of positions alone, such as a causal one, lets every query see itself.

    Source: PyTorch documentation of ``torch.nn.functional.scaled_dot_product_attention``.
    """
    if dropout:
        raise t.refuse(f"dropout of {dropout} in a captured model", hint="call model.eval()")
    q, k, v = (t.operand(each, out.dtype) for each in (query, key, value))
    if enable_gqa:
        k, v = (_repeat_heads(t, each, q) for each in (k, v))
    factor = scale if scale is not None else 1 / math.sqrt(int(t.type_of(q).shape[-1]))
    scores = _scores(t, q, k, factor)
    if causal:
        rows, columns = t.type_of(scores).shape[-2:]
        row = t.reshape(t.add(Iota(rows, DType.I64)), (rows, 1))
        mask = t.add(LessEqual(), t.add(Iota(columns, DType.I64)), row)
    if mask is not None:
        mask = t.whole(mask)
        scores = _masked(t, scores, mask)
    return t.add(Matmul(), _weights(t, scores, mask), v)


def _scores(t: Translation, query: Value, key: Value, factor: float) -> Value:
    rank = t.type_of(key).rank
    turned = t.transpose(key, (*range(rank - 2), rank - 1, rank - 2))
    scores = t.add(Matmul(), query, turned)
    return t.add(Multiply(), scores, t.constant(factor, t.type_of(scores).dtype))


def _masked(t: Translation, scores: Value, mask: Value) -> Value:
    """Truth values say what may be seen; numbers are added."""
    dtype = t.type_of(scores).dtype
    if t.type_of(mask).dtype is DType.BOOL:
        return t.add(Select(), mask, scores, t.constant(-math.inf, dtype))
    return t.add(Add(), scores, t.cast(mask, dtype))


def _weights(t: Translation, scores: Value, mask: Value | None) -> Value:
    """Softmax over the last axis; zeros where nothing may be seen."""
    type_ = t.type_of(scores)
    axis = type_.rank - 1
    if mask is None or not _depends_on_tensors(t, mask):
        return t.add(Softmax(axis), scores)
    low, zero = t.constant(-math.inf, type_.dtype), t.constant(0, type_.dtype)
    sees = t.add(Greater(), t.add(ReduceMax((axis,)), scores), low)
    return t.add(Select(), sees, t.add(Softmax(axis), t.add(Select(), sees, scores, zero)), zero)


def _depends_on_tensors(t: Translation, value: Value) -> bool:
    needed = t.builder.needed((value,))
    return any(isinstance(t.builder.op_of(Value(each)), Input | Param) for each in needed)


def _repeat_heads(t: Translation, a: Value, query: Value) -> Value:
    """``[*b, g, s, d]`` to ``[*b, h, s, d]``: each head serves ``h / g`` consecutive queries."""
    *batch, groups, length, width = t.type_of(a).shape
    heads = t.type_of(query).shape[-3]
    if groups == heads or not isinstance(heads, int) or not isinstance(groups, int):
        return a
    apart = t.reshape(a, (*batch, groups, 1, length, width))
    many = t.expand(apart, (*batch, groups, heads // groups, length, width))
    return t.reshape(many, (*batch, heads, length, width))


PRODUCT: dict[str, Handler] = {
    "aten.linear.default": linear,
    "aten.matmul.default": matmul,
    "aten.mm.default": matmul,
    "aten.bmm.default": matmul,
    "aten.addmm.default": add_matmul,
    "aten._grouped_mm.default": grouped_matmul,
    "transformers.grouped_mm_fallback.default": grouped_matmul,
    "aten.scaled_dot_product_attention.default": attention,
}
