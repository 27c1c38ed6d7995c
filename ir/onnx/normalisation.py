"""Normalisation and rotation of the last axis."""

from collections.abc import Sequence

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.element_format import wide_format
from ascendfx.ir.onnx.movement import part, reshaped
from ascendfx.ir.tensor_type import TensorType


def rms_norm(
    body: Body, op: ops.RmsNorm, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Divide by the root of the mean square, then scale.

    Not RMSNormalization of opset 23, whose result is rounded before the gain is applied.
    """
    x, gain = map(body.wide, operands)
    mean = body.emit("ReduceMean", body.emit("Mul", x, x), body.ints(-1), keepdims=1)
    eps = body.constant(op.eps, wide_format(results[0].dtype))
    root = body.emit("Sqrt", body.emit("Add", mean, eps))
    normed = body.emit("Mul", body.emit("Div", x, root), gain)
    return (body.narrow(normed, results[0]),)


def rotary(
    body: Body, op: ops.Rotary, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Rotate pairs."""
    x, cos, sin = map(body.wide, operands)
    shape = results[0].shape
    axis, columns = len(shape) - 1, int(shape[-1])
    half = columns // 2
    bounds = [(0, columns, 2), (1, columns, 2)]
    if not op.interleaved_in:
        bounds = [(0, half, 1), (half, columns, 1)]
    u, v = (part(body, x, axis, start, stop, step=step) for start, stop, step in bounds)
    pair = (
        body.emit("Sub", body.emit("Mul", u, cos), body.emit("Mul", v, sin)),
        body.emit("Add", body.emit("Mul", v, cos), body.emit("Mul", u, sin)),
    )
    if op.interleaved_out:
        columns_ = (body.emit("Unsqueeze", each, body.ints(-1)) for each in pair)
        rotated = reshaped(body, body.emit("Concat", *columns_, axis=-1), shape)
    else:
        rotated = body.emit("Concat", *pair, axis=-1)
    return (body.narrow(rotated, results[0]),)
