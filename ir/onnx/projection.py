"""Matrix products."""

from collections.abc import Sequence

from onnx import helper

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.code_pairs import unpacked
from ascendfx.ir.onnx.element_format import ONNX_FORMAT, wide_format
from ascendfx.ir.onnx.movement import part, reshaped
from ascendfx.ir.size import simplify_size
from ascendfx.ir.tensor_type import DType, TensorType


def matmul(
    body: Body, _op: ops.Matmul, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Multiply."""
    return (body.narrow(body.emit("MatMul", *map(body.wide, operands)), results[0]),)


def linear(
    body: Body, op: ops.Linear, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Multiply by the transposed weight."""
    given = [unpacked(body, each) for each in operands] if op.pairs else operands
    x, w = map(body.wide, given)
    weight = body.emit("Transpose", w, perm=(1, 0))
    return (body.narrow(body.emit("MatMul", x, weight), results[0]),)


def head_linear(
    body: Body, _op: ops.HeadLinear, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Multiply a row per head: ``[*b, h, 1, k] @ [h, k, n]``; a shared head broadcasts."""
    x, w = map(body.wide, operands)
    rows = body.emit("Unsqueeze", x, body.ints(-2))
    product = body.emit("MatMul", rows, body.emit("Transpose", w, perm=(0, 2, 1)))
    return (body.narrow(body.emit("Squeeze", product, body.ints(-2)), results[0]),)


def grouped_linear(
    body: Body, op: ops.GroupedLinear, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Multiply group by group in a loop: each row by one weight, no weight is copied per row."""
    x, w, ends = operands
    if op.pairs:
        x, w = unpacked(body, x), unpacked(body, w)
    groups = w.shape[0]
    lasts = body.cast(ends.name, ends.dtype, DType.I64)
    firsts = body.emit(
        "Concat", body.ints(0), part(body, lasts, 0, 0, simplify_size(groups - 1)), axis=0
    )
    wide = wide_format(x.dtype)
    products = body.emit(
        "Loop",
        body.emit("Squeeze", body.size(groups), body.ints(0)),
        "",
        body.emit("SequenceEmpty", dtype=ONNX_FORMAT[wide]),
        body=_one_group(body, x, w, firsts, lasts),
    )
    total = part(body, lasts, 0, simplify_size(groups - 1), groups)
    left = body.emit("Sub", body.size(x.shape[0]), total)
    inner = map(body.size, (*x.shape[1:-1], w.shape[1]))
    shape = body.emit("Concat", left, *inner, axis=0)
    behind = body.emit("Expand", body.constant(0, wide), shape)
    rows = body.emit("SequenceInsert", products, behind)
    joined = body.emit("ConcatFromSequence", rows, axis=0)
    return (body.narrow(reshaped(body, joined, results[0].shape), results[0]),)


def _one_group(body: Body, x: Tensor, w: Tensor, firsts: str, lasts: str) -> object:
    """Return the loop's graph: append ``x[first:last] @ w[group].T`` to a sequence."""
    inner = Body(body.names)
    inner.label = body.label
    group, condition, before = (body.names.fresh(f"{body.label}.{n}") for n in ("i", "go", "done"))
    which = inner.emit("Unsqueeze", group, inner.ints(0))
    first, last = (inner.emit("Gather", each, which, axis=0) for each in (firsts, lasts))
    rows = inner.emit("Slice", x.name, first, last, inner.ints(0))
    weight = inner.emit("Gather", w.name, group, axis=0)
    wide = wide_format(x.dtype)
    product = inner.emit(
        "MatMul",
        inner.cast(rows, x.dtype, wide),
        inner.emit("Transpose", inner.cast(weight, w.dtype, wide), perm=(1, 0)),
    )
    after = inner.emit("SequenceInsert", before, product)
    go_on = inner.emit("Identity", condition)
    sequence = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(ONNX_FORMAT[wide], shape=None)
    )
    return helper.make_graph(
        inner.nodes,
        body.names.fresh(f"{body.label}.one_group"),
        [
            helper.make_tensor_value_info(group, ONNX_FORMAT[DType.I64], []),
            helper.make_tensor_value_info(condition, ONNX_FORMAT[DType.BOOL], []),
            helper.make_value_info(before, sequence),
        ],
        [
            helper.make_tensor_value_info(go_on, ONNX_FORMAT[DType.BOOL], []),
            helper.make_value_info(after, sequence),
        ],
    )
