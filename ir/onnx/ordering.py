"""Operations that sort; ONNX TopK puts equal elements in the order of their indices.

Source: ONNX operator TopK, version 11: the element with the lower index appears first.
"""

from collections.abc import Sequence

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.tensor_type import DType, TensorType


def topk(
    body: Body, op: ops.Topk, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Choose the largest."""
    values, ids = largest(body, body.wide(operands[0]), body.ints(op.k))
    return body.narrow(values, results[0]), ids


def sort(
    body: Body, op: ops.Sort, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Choose as many as there are."""
    (a,) = operands
    values, ids = body.emit_multi(
        "TopK",
        (body.wide(a), body.size(a.shape[op.axis])),
        2,
        axis=op.axis,
        largest=int(op.descending),
    )
    return body.narrow(values, results[0]), ids


def argmax(
    body: Body, _op: ops.Argmax, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Choose the first of the largest."""
    index = body.emit("ArgMax", body.wide(operands[0]), axis=-1, keepdims=0)
    return (body.cast(index, DType.I64, results[0].dtype),)


def largest(body: Body, a: str, count: str) -> tuple[str, ...]:
    """Return the ``count`` largest of the last axis and their indices, ``i64``."""
    return body.emit_multi("TopK", (a, count), 2, axis=-1)


def ascending_order(body: Body, a: str, count: str) -> str:
    """Return the indices that sort a vector of ``count`` elements; stable."""
    return body.emit_multi("TopK", (a, count), 2, axis=0, largest=0)[1]
