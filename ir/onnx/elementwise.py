"""Elementwise operations."""

from collections.abc import Sequence

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor, Translator
from ascendfx.ir.onnx.element_format import wide_format
from ascendfx.ir.tensor_type import DType, TensorType


def arithmetic(op_type: str) -> Translator:
    """Return the translator of an operation that ONNX has under the name ``op_type``."""

    def translate(
        body: Body, _op: object, operands: Sequence[Tensor], results: tuple[TensorType, ...]
    ) -> tuple[str, ...]:
        return (body.narrow(body.emit(op_type, *map(body.wide, operands)), results[0]),)

    return translate


def comparison(op_type: str, *, negated: bool = False) -> Translator:
    """Return the translator of a comparison; truth values are compared as integers."""

    def translate(
        body: Body, _op: object, operands: Sequence[Tensor], results: tuple[TensorType, ...]
    ) -> tuple[str, ...]:
        operands_ = [
            body.cast(each.name, DType.BOOL, DType.I32)
            if each.dtype is DType.BOOL
            else body.wide(each)
            for each in operands
        ]
        holds = body.emit(op_type, *operands_)
        return (body.emit("Not", holds) if negated else holds,)

    return translate


def logic(op_type: str) -> Translator:
    """Return the translator of an operation on truth values; numbers are true unless zero."""

    def translate(
        body: Body, _op: object, operands: Sequence[Tensor], results: tuple[TensorType, ...]
    ) -> tuple[str, ...]:
        truths = (body.cast(each.name, each.dtype, DType.BOOL) for each in operands)
        holds = body.emit(op_type, *truths)
        return (body.cast(holds, DType.BOOL, results[0].dtype),)

    return translate


def divide(
    body: Body, _op: ops.Divide, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Divide; ONNX truncates integer quotients, so the remainder (sign of ``b``) goes first."""
    a, b = map(body.wide, operands)
    if not results[0].dtype.is_float:
        a = body.emit("Sub", a, body.emit("Mod", a, b))
    return (body.narrow(body.emit("Div", a, b), results[0]),)


def rsqrt(
    body: Body, _op: ops.Rsqrt, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Take the reciprocal of the root."""
    root = body.emit("Sqrt", body.wide(operands[0]))
    return (body.narrow(body.emit("Reciprocal", root), results[0]),)


def relu(
    body: Body, _op: ops.Relu, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Take the maximum with zero, which ONNX Runtime has for every format."""
    a = operands[0]
    zero = body.constant(0, wide_format(a.dtype))
    return (body.narrow(body.emit("Max", body.wide(a), zero), results[0]),)


def silu(
    body: Body, _op: ops.Silu, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Multiply by the sigmoid."""
    return (body.narrow(_silu(body, body.wide(operands[0])), results[0]),)


def swiglu(
    body: Body, _op: ops.Swiglu, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Multiply the gated half by the other, rounding once."""
    gate, up = map(body.wide, operands)
    return (body.narrow(body.emit("Mul", _silu(body, gate), up), results[0]),)


def _silu(body: Body, a: str) -> str:
    return body.emit("Mul", a, body.emit("Sigmoid", a))


def cast(
    body: Body, op: ops.Cast, operands: Sequence[Tensor], _results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Convert."""
    return (body.cast(operands[0].name, operands[0].dtype, op.dtype),)


def select(
    body: Body, _op: ops.Select, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Choose; a choice between truth values is made of their conjunctions."""
    condition, a, b = operands
    if results[0].dtype is not DType.BOOL:
        chosen = body.emit("Where", condition.name, body.wide(a), body.wide(b))
        return (body.narrow(chosen, results[0]),)
    first = body.emit("And", condition.name, a.name)
    second = body.emit("And", body.emit("Not", condition.name), b.name)
    return (body.emit("Or", first, second),)
