"""Routing of tokens to experts and back."""

from collections.abc import Sequence

import numpy as np

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.element_format import tensor_proto, wide_format
from ascendfx.ir.onnx.movement import count_up_to, reshaped
from ascendfx.ir.onnx.ordering import ascending_order, largest
from ascendfx.ir.onnx.reduction import count_true
from ascendfx.ir.size import Dim, product, simplify_size
from ascendfx.ir.tensor_type import DType, TensorType


def route_topk(
    body: Body, op: ops.RouteTopk, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Score, limit the groups, choose, weigh."""
    logits = operands[0]
    wide = wide_format(logits.dtype)
    kind = "Sigmoid" if op.scoring == "sigmoid" else "Softmax"
    scores = body.emit(kind, body.wide(logits), **({} if kind == "Sigmoid" else {"axis": -1}))
    choice = scores
    if op.biased:
        bias = body.cast(operands[1].name, operands[1].dtype, wide)
        choice = body.emit("Add", scores, bias)
    if op.groups > 1:
        choice = _limit_groups(body, op, choice, logits.shape, wide)
    _, ids = largest(body, choice, body.ints(op.k))
    weights = body.emit("GatherElements", scores, ids, axis=-1)
    if op.normalize:
        total = body.emit("ReduceSum", weights, body.ints(-1), keepdims=1)
        total = body.emit("Add", total, body.constant(1e-20, wide))
        weights = body.emit("Div", weights, total)
    weights = body.emit("Mul", weights, body.constant(op.scale, wide))
    return body.narrow(weights, results[0]), ids


def _limit_groups(
    body: Body, op: ops.RouteTopk, choice: str, shape: tuple[Dim, ...], wide: DType
) -> str:
    """Return ``choice`` with the experts outside the best groups replaced."""
    each = int(shape[-1]) // op.groups
    grouped = reshaped(body, choice, (*shape[:-1], op.groups, each))
    count = min(2 if op.group_score == "top2_sum" else 1, each)
    best, _ = largest(body, grouped, body.ints(count))
    score = body.emit("ReduceSum", best, body.ints(-1), keepdims=0)
    _, order = largest(body, score, body.ints(op.topk_groups))
    none = _filled(body, body.shape((*shape[:-1], op.groups)), value=False)
    all_ = _filled(body, body.shape((*shape[:-1], op.topk_groups)), value=True)
    kept = body.emit("ScatterElements", none, order, all_, axis=-1)
    masked = body.constant(op.masked_value, wide)
    limited = body.emit("Where", body.emit("Unsqueeze", kept, body.ints(-1)), grouped, masked)
    return reshaped(body, limited, shape)


def _filled(body: Body, shape: str, *, value: bool) -> str:
    return body.emit(
        "ConstantOfShape", shape, value=tensor_proto("", np.array([value]), DType.BOOL)
    )


def dispatch_experts(
    body: Body, op: ops.DispatchExperts, operands: Sequence[Tensor], _types: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Sort the pairs; the order of the order is its inverse, because it is a permutation."""
    (ids,) = operands
    flat = body.emit("Reshape", body.cast(ids.name, ids.dtype, DType.I64), body.ints(-1))
    pairs = body.size(product(ids.shape))
    order = ascending_order(body, flat, pairs)
    source_row = body.emit("Div", order, body.size(ids.shape[1]))
    experts = body.constant(np.arange(op.experts)[:, None], DType.I64)
    not_behind = body.emit("LessOrEqual", body.emit("Unsqueeze", flat, body.ints(0)), experts)
    tables = source_row, ascending_order(body, order, pairs), count_true(body, not_behind, axis=1)
    return tuple(body.cast(each, DType.I64, DType.I32) for each in tables)


def row_groups(
    body: Body, op: ops.RowGroups, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Count the ends that are not behind each row, the last one left out."""
    (ends,) = operands
    rows = body.emit("Unsqueeze", count_up_to(body, op.size), body.ints(0))
    lasts = body.emit("Unsqueeze", body.cast(ends.name, ends.dtype, DType.I64), body.ints(1))
    before = body.emit(
        "Slice", lasts, body.ints(0), body.size(simplify_size(ends.shape[0] - 1)), body.ints(0)
    )
    groups = count_true(body, body.emit("LessOrEqual", before, rows), axis=0)
    return (body.cast(groups, DType.I64, results[0].dtype),)


def combine_experts(
    body: Body, _op: ops.CombineExperts, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Collect the pairs of each row and add them up."""
    y, place, weights = operands
    wide = wide_format(y.dtype)
    moved = body.cast(body.emit("Gather", y.name, place.name, axis=0), y.dtype, wide)
    pairs = reshaped(body, moved, (*weights.shape, y.shape[1]))
    factors = body.emit("Unsqueeze", body.cast(weights.name, weights.dtype, wide), body.ints(-1))
    total = body.emit("ReduceSum", body.emit("Mul", pairs, factors), body.ints(1), keepdims=0)
    return (body.narrow(total, results[0]),)
