"""Operations that read or write places given by numbers."""

from collections.abc import Sequence

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.movement import count_up_to, expanded, reshaped
from ascendfx.ir.size import product
from ascendfx.ir.tensor_type import DType, TensorType


def gather_rows(
    body: Body, _op: ops.GatherRows, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Look up."""
    table, ids = operands
    return (body.emit("Gather", table.name, ids.name, axis=0),)


def take_along(
    body: Body, op: ops.TakeAlong, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Choose."""
    a, ids = operands
    return (body.emit("GatherElements", a.name, ids.name, axis=op.axis),)


def scatter_along(
    body: Body, op: ops.ScatterAlong, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Replace elements."""
    a, ids, source = operands
    updates = source.name
    if source.shape != ids.shape:
        updates = expanded(body, source, ids.shape)
    return (body.emit("ScatterElements", a.name, ids.name, updates, axis=op.axis),)


def scatter_rows(
    body: Body, _op: ops.ScatterRows, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Replace rows."""
    table, ids, rows = operands
    return (_write_rows(body, table.name, body.cast(ids.name, ids.dtype, DType.I64), rows.name),)


def _write_rows(body: Body, table: str, ids: str, rows: str) -> str:
    return body.emit("ScatterND", table, body.emit("Unsqueeze", ids, body.ints(-1)), rows)


def cache_write(
    body: Body, _op: ops.CacheWrite, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Store the rows whose slot is not negative."""
    cache, slots, x = operands
    flat = _by_slot(body, cache)
    stored = body.emit("GreaterOrEqual", slots.name, body.constant(0, DType.I32))
    kept = body.emit("Squeeze", body.emit("NonZero", stored), body.ints(0))
    ids = body.cast(body.emit("Gather", slots.name, kept, axis=0), DType.I32, DType.I64)
    flat = _write_rows(body, flat, ids, body.emit("Gather", x.name, kept, axis=0))
    return (reshaped(body, flat, cache.shape),)


def cache_read(
    body: Body, op: ops.CacheRead, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Turn each token into its slot and collect."""
    cache, table = operands
    tokens = count_up_to(body, op.context)
    block = body.size(cache.shape[1])
    chosen = body.emit("Gather", table.name, body.emit("Div", tokens, block), axis=1)
    first = body.emit("Mul", body.cast(chosen, DType.I32, DType.I64), block)
    slots = body.emit("Add", first, body.emit("Mod", tokens, block))
    return (body.emit("Gather", _by_slot(body, cache), slots, axis=0),)


def _by_slot(body: Body, cache: Tensor) -> str:
    return reshaped(body, cache.name, (product(cache.shape[:2]), *cache.shape[2:]))
