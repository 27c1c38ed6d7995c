"""Operations that make or move elements without reading indices."""

from collections.abc import Sequence

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import DType, TensorType


def constant(
    body: Body, op: ops.Constant, _operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Return the number."""
    return (body.scalar(op.value, op.dtype),)


def iota(
    body: Body, op: ops.Iota, _operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Count in integers, because ONNX has no Range of narrow floats."""
    numbers = count_up_to(body, op.size)
    if op.step != 1:
        numbers = body.emit("Mul", numbers, body.constant(op.step, DType.I64))
    if op.start != 0:
        numbers = body.emit("Add", numbers, body.constant(op.start, DType.I64))
    return (body.cast(numbers, DType.I64, op.dtype),)


def count_up_to(body: Body, size: Dim) -> str:
    """Return ``0 .. size - 1`` as ``i64[size]``."""
    stop = body.emit("Squeeze", body.size(size), body.ints(0))
    return body.emit("Range", body.constant(0, DType.I64), stop, body.constant(1, DType.I64))


def reshape(
    body: Body, op: ops.Reshape, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Reshape."""
    return (reshaped(body, operands[0].name, op.shape),)


def reshaped(body: Body, name: str, shape: Sequence[Dim]) -> str:
    """Return the same elements under another shape; a size of zero means zero."""
    return body.emit("Reshape", name, body.shape(shape), allowzero=1)


def transpose(
    body: Body, op: ops.Transpose, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Permute."""
    return (body.emit("Transpose", operands[0].name, perm=op.permutation),)


def expand(
    body: Body, op: ops.Expand, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Repeat."""
    return (expanded(body, operands[0], op.shape),)


def expanded(body: Body, a: Tensor, shape: Sequence[Dim]) -> str:
    """Return ``a`` broadcast; narrow floats travel as wide ones, which loses nothing.

    ONNX Runtime has no Expand of bfloat16.
    """
    if a.dtype is DType.BOOL:
        return body.emit("Expand", a.name, body.shape(shape))
    return body.narrow(body.emit("Expand", body.wide(a), body.shape(shape)), a.type)


def slice_(
    body: Body, op: ops.Slice, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Cut."""
    return (part(body, operands[0].name, op.axis, op.start, op.stop, step=op.step),)


def part(body: Body, name: str, axis: int, start: Dim, stop: Dim, *, step: int = 1) -> str:
    """Return ``name[..., start:stop:step, ...]`` on one axis."""
    bounds = body.size(start), body.size(stop)
    return body.emit("Slice", name, *bounds, body.ints(axis), body.ints(step))


def concat(
    body: Body, op: ops.Concat, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Join."""
    return (body.emit("Concat", *(each.name for each in operands), axis=op.axis),)
