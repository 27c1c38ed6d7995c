"""Both attentions, made of matrix products and a softmax."""

from collections.abc import Sequence
from dataclasses import dataclass

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.element_format import wide_format
from ascendfx.ir.onnx.movement import count_up_to, reshaped
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import DType, TensorType

_NODES = 31
"""Nodes of a tree at most: bits of an ``i32`` that is not negative."""


@dataclass(frozen=True, slots=True)
class _Heads:
    """A value ``[b, t, heads, d]`` in the wide format."""

    name: str
    shape: tuple[Dim, Dim, Dim, Dim]


def attention(
    body: Body, op: ops.Attention, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Attend within the sequence."""
    roles = op.roles(operands)
    *parts, v = (_heads(body, each) for each in (*roles.queries, *roles.keys, roles.values))
    mask = None if roles.mask is None else body.wide(roles.mask)
    visible = None
    if op.causal:
        own = body.emit("Unsqueeze", count_up_to(body, operands[0].shape[1]), body.ints(1))
        visible = body.emit("LessOrEqual", count_up_to(body, v.shape[1]), own)
    scores = _scores(body, parts[: op.parts], parts[op.parts :], op.scale, operands[0].dtype)
    if mask is not None:
        scores = body.emit("Add", scores, mask)
    y = _weighted(body, scores, parts[0], visible, v, operands[0].dtype)
    return (body.narrow(y, results[0]),)


def ragged_attention(
    body: Body, op: ops.RaggedAttention, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Attend row by row: the context of its request is gathered for each row.

    A single request, known now, is shared by all rows instead. Values that a row does not see are
    set to zero, because the cache may hold anything there, and ``0 * nan`` is not zero.
    """
    rows, heads, _ = operands[0].shape
    roles = op.roles(operands)
    shared = roles.values.shape[0] == 1
    queries = [
        _Heads(
            body.emit("Unsqueeze", body.wide(q), body.ints(0 if shared else 1)),
            (1, rows, heads, q.shape[2]) if shared else (rows, 1, heads, q.shape[2]),
        )
        for q in roles.queries
    ]
    *keys, v = (
        _heads(body, each) if shared else _context_of_rows(body, each, roles.row_request, rows)
        for each in (*roles.keys, roles.values)
    )
    own = body.emit(
        "Unsqueeze", body.cast(roles.positions.name, DType.I32, DType.I64), body.ints(1)
    )
    places = count_up_to(body, v.shape[1])
    if roles.ancestors is None:
        seen = body.emit("LessOrEqual", places, own)
    else:
        seen = _seen_in_tree(body, places, own, roles.ancestors)
    zero = body.constant(0, wide_format(operands[0].dtype))
    known = seen if not shared else _any_row(body, seen)
    known = body.emit("Unsqueeze", known, body.ints(2, 3))
    v = _Heads(body.emit("Where", known, v.name, zero), v.shape)
    scores = _scores(body, queries, keys, op.scale, operands[0].dtype)
    visible = body.emit("Unsqueeze", seen, body.ints(0, 1) if shared else body.ints(1, 2))
    y = _weighted(body, scores, queries[0], visible, v, operands[0].dtype)
    y = body.emit("Squeeze", y, body.ints(0 if shared else 1))
    return (body.narrow(y, results[0]),)


def _seen_in_tree(body: Body, places: str, own: str, ancestors: Tensor) -> str:
    """Return ``bool[rows, context]`` from the last seen token of each row and its nodes."""
    wide = body.cast(ancestors.name, DType.I32, DType.I64)
    powers = body.constant([2**i for i in range(_NODES)], DType.I64)
    shifted = body.emit("Div", body.emit("Unsqueeze", wide, body.ints(1)), powers)
    bits = body.emit("Mod", shifted, body.constant(2, DType.I64))
    one = body.constant(1, DType.I64)
    count = body.emit("ReduceSum", bits, body.ints(1), keepdims=1)
    first = body.emit("Sub", body.emit("Add", own, one), count)
    nodes = body.emit("Sub", places, first)
    zero, last = body.constant(0, DType.I64), body.constant(_NODES - 1, DType.I64)
    clipped = body.emit("Max", body.emit("Min", nodes, last), zero)
    bit = body.emit("Equal", body.emit("GatherElements", bits, clipped, axis=1), one)
    in_tree = body.emit("And", bit, body.emit("LessOrEqual", nodes, last))
    return body.emit("Or", body.emit("Less", nodes, zero), in_tree)


def _heads(body: Body, tensor: Tensor) -> _Heads:
    b, t, heads, d = tensor.shape
    return _Heads(body.wide(tensor), (b, t, heads, d))


def _context_of_rows(body: Body, tensor: Tensor, row_request: Tensor, rows: Dim) -> _Heads:
    _, context, heads, d = tensor.shape
    name = body.emit("Gather", tensor.name, row_request.name, axis=0)
    wide = body.cast(name, tensor.dtype, wide_format(tensor.dtype))
    return _Heads(wide, (rows, context, heads, d))


def _any_row(body: Body, seen: str) -> str:
    """Return ``bool[1, context]``: which tokens the furthest row sees."""
    numbers = body.cast(seen, DType.BOOL, DType.I32)
    furthest = body.emit("ReduceMax", numbers, body.ints(0), keepdims=1)
    return body.cast(furthest, DType.I32, DType.BOOL)


def _scores(
    body: Body, queries: Sequence[_Heads], keys: Sequence[_Heads], scale: float, dtype: DType
) -> str:
    """Return ``scale * sum_i q_i k_i`` as ``[b, h, t, s]``."""
    total = ""
    for q, k in zip(queries, keys, strict=True):
        q_rows = body.emit("Transpose", q.name, perm=(0, 2, 1, 3))
        k_columns = body.emit("Transpose", k.name, perm=(0, 2, 3, 1))
        b, t, heads, d = q.shape
        product = _per_group(body, q_rows, (b, heads, t, d), k_columns, k, k.shape[1])
        total = body.emit("Add", total, product) if total else product
    return body.emit("Mul", total, body.constant(scale, wide_format(dtype)))


def _weighted(
    body: Body, scores: str, first: _Heads, visible: str | None, v: _Heads, dtype: DType
) -> str:
    """Return ``softmax(scores) v`` as ``[b, t, h, dv]``; ``first`` is the first query part."""
    if visible is not None:
        hidden = body.constant(float("-inf"), wide_format(dtype))
        scores = body.emit("Where", visible, scores, hidden)
    weights = body.emit("Softmax", scores, axis=-1)
    v_rows = body.emit("Transpose", v.name, perm=(0, 2, 1, 3))
    b, t, heads, _ = first.shape
    y = _per_group(body, weights, (b, heads, t, v.shape[1]), v_rows, v, v.shape[3])
    return body.emit("Transpose", y, perm=(0, 2, 1, 3))


def _per_group(
    body: Body, left: str, shape: tuple[Dim, ...], right: str, source: _Heads, columns: Dim
) -> str:
    """Return ``left @ right`` where several heads of ``left`` share one of ``right``."""
    batch, heads, rows, inner = shape
    groups = source.shape[2]
    if groups in (1, heads):
        return body.emit("MatMul", left, right)
    each = int(heads) // int(groups)
    split = reshaped(body, left, (batch, groups, each, rows, inner))
    product = body.emit("MatMul", split, body.emit("Unsqueeze", right, body.ints(2)))
    return reshaped(body, product, (batch, heads, rows, columns))
