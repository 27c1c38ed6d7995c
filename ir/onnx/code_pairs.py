"""Four-bit codes, two in a byte, by arithmetic on whole numbers."""

from collections.abc import Sequence

from ascendfx.ir import ops
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.element_format import ONNX_FORMAT
from ascendfx.ir.onnx.movement import part, reshaped
from ascendfx.ir.tensor_type import DType, TensorType


def pack_codes(
    body: Body, _op: ops.PackCodes, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Round and pack."""
    (x,) = operands
    return (_packed(body, _whole(body, x), results[0]),)


def split_codes(
    body: Body, _op: ops.SplitCodes, operands: Sequence[Tensor], results: tuple[TensorType, ...]
) -> tuple[str, ...]:
    """Round, split and pack: ``high = (x + 8 + 256) / 16 - 16``, of nothing below zero."""
    (x,) = operands
    codes = _whole(body, x)
    sixteen = body.constant(16, DType.I32)
    raised = body.emit("Add", codes, body.constant(264, DType.I32))
    high = body.emit("Sub", body.emit("Div", raised, sixteen), sixteen)
    low = body.emit("Sub", codes, body.emit("Mul", high, sixteen))
    digits = [body.emit("Unsqueeze", each, body.ints(-2)) for each in (high, low)]
    return (_packed(body, body.emit("Concat", *digits, axis=-2), results[0]),)


def unpacked(body: Body, pairs: Tensor) -> Tensor:
    """Return the codes ``i32[.., 2 h]`` of bytes ``[.., h]``."""
    wide = body.cast(pairs.name, DType.I4X2, DType.I32)
    eight, sixteen = (body.constant(each, DType.I32) for each in (8, 16))
    halves: list[str] = []
    for each in (wide, body.emit("Div", wide, sixteen)):
        raised = body.emit("Mod", body.emit("Add", each, eight), sixteen)
        code = body.emit("Sub", raised, eight)
        halves.append(body.emit("Unsqueeze", code, body.ints(-1)))
    shape = (*pairs.shape[:-1], 2 * pairs.shape[-1])
    both = body.emit("Concat", *halves, axis=-1)
    return Tensor(reshaped(body, both, shape), TensorType(DType.I32, shape))


def _whole(body: Body, x: Tensor) -> str:
    return body.emit("Cast", body.emit("Round", body.wide(x)), to=ONNX_FORMAT[DType.I32])


def _packed(body: Body, codes: str, kind: TensorType) -> str:
    """Return codes as bytes: ``first % 16 + 16 * (second % 16)``."""
    last, length = kind.rank - 1, 2 * kind.shape[-1]
    sixteen = body.constant(16, DType.I32)
    first, second = (
        body.emit("Mod", part(body, codes, last, start, length, step=2), sixteen)
        for start in (0, 1)
    )
    total = body.emit("Add", first, body.emit("Mul", second, sixteen))
    return body.cast(total, DType.I32, kind.dtype)
