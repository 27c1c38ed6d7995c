"""Operations that sum or compare along axes."""

from collections.abc import Sequence

import numpy as np

from ascendfx.ir import ops
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.onnx.body import Body, Tensor, Translator
from ascendfx.ir.onnx.element_format import wide_format
from ascendfx.ir.reduction import Reduction
from ascendfx.ir.tensor_type import DType, TensorType


def reduction(op_type: str) -> Translator:
    """Return the translator of a reduction that ONNX has under the name ``op_type``."""

    def translate(
        body: Body, op: Reduction, operands: Sequence[Tensor], results: tuple[TensorType, ...]
    ) -> tuple[str, ...]:
        if op_type == "ReduceMean" and not results[0].dtype.is_float:
            raise OpTypeError("reduce_mean: ONNX truncates the mean of integers")
        wide, axes = body.wide(operands[0]), body.ints(*op.axes)
        reduced = body.emit(op_type, wide, axes, keepdims=int(op.keep))
        return (body.narrow(reduced, results[0]),)

    return translate


def softmax(
    body: Body, op: ops.Softmax, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Normalise."""
    return (body.narrow(body.emit("Softmax", body.wide(operands[0]), axis=op.axis), results[0]),)


def cumulative_sum(
    body: Body, op: ops.CumulativeSum, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Add up."""
    axis = body.constant(op.axis, DType.I64)
    return (body.narrow(body.emit("CumSum", body.wide(operands[0]), axis), results[0]),)


def histogram(
    body: Body, op: ops.Histogram, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Compare with each bin and count."""
    (a,) = operands
    bins = body.constant(np.arange(op.bins)[:, None], wide_format(a.dtype))
    equal = body.emit("Equal", body.emit("Unsqueeze", body.wide(a), body.ints(0)), bins)
    counts = count_true(body, equal, axis=1)
    return (body.cast(counts, DType.I64, results[0].dtype),)


def count_true(body: Body, truths: str, *, axis: int) -> str:
    """Return how many are true along an axis, which disappears, as ``i64``."""
    ones = body.cast(truths, DType.BOOL, DType.I64)
    return body.emit("ReduceSum", ones, body.ints(axis), keepdims=0)
