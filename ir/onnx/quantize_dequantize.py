"""Codes and their products in the form that tools know: QuantizeLinear and DequantizeLinear."""

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.code_pairs import unpacked
from ascendfx.ir.tensor_type import DType, TensorType

_INT4 = (-8, 7)


def quantize_rows(body: Body, numbers: Tensor, scale: Tensor) -> str:
    """Return the codes ``i8[*b, k]`` of numbers, with a scale ``[*b, 1]`` for each row."""
    form = {"block_size": numbers.shape[-1], "output_dtype": TensorProto.INT8}
    given = numbers.name, scale.name
    return body.once(
        ("quantized", *given),
        lambda: body.emit("QuantizeLinear", *given, axis=numbers.type.rank - 1, **form),
    )


def taken_rows(body: Body, codes: Tensor, taken: Tensor) -> Tensor:
    """Return some rows of codes ``[rows, k]``."""
    name = body.once(
        ("taken", codes.name, taken.name),
        lambda: body.emit("Gather", codes.name, taken.name, axis=0),
    )
    return Tensor(name, TensorType(codes.dtype, (*taken.shape, *codes.shape[1:])))


def one_by_one(body: Body, pairs: Tensor, *, stored: bool) -> Tensor:
    """Return codes ``[.., k]`` of bytes with two of them, ``[.., k / 2]``.

    Args:
        body: Takes the nodes.
        pairs: The bytes.
        stored: Whether they are written as what they are, codes of four bits.
    """
    shape = (*pairs.shape[:-1], 2 * pairs.shape[-1])
    kind = TensorType(DType.I8, shape)
    if stored:
        return Tensor(pairs.name, kind)
    return Tensor(body.cast(unpacked(body, pairs).name, DType.I32, DType.I8), kind)


def dequantize_rows(body: Body, codes: Tensor, scale: Tensor) -> Tensor:
    """Return the numbers ``f32[*b, k]`` of codes, with a scale ``[*b, 1]`` for each row."""
    axis, size = codes.type.rank - 1, codes.shape[-1]
    return _dequantized(body, codes, scale.name, axis=axis, block_size=size)


def dequantize_weight(body: Body, codes: Tensor, scale: Tensor) -> Tensor:
    """Return a weight ``f32[.., n, k]`` of its codes, with a scale ``[.., n]`` for each channel.

    A weight alone has its scales along axis 0, as tools know it; weights of experts have blocks of
    a whole row each.
    """
    if codes.type.rank == 2:
        return _dequantized(body, codes, scale.name, axis=0)
    column = body.once(
        ("column", scale.name), lambda: body.emit("Unsqueeze", scale.name, body.ints(-1))
    )
    axis, size = codes.type.rank - 1, codes.shape[-1]
    return _dequantized(body, codes, column, axis=axis, block_size=size)


def _dequantized(body: Body, codes: Tensor, scale: str, **attributes: object) -> Tensor:
    name = body.once(
        ("dequantized", codes.name, scale),
        lambda: body.emit("DequantizeLinear", codes.name, scale, **attributes),
    )
    return Tensor(name, TensorType(DType.F32, codes.shape))


def fits_int4(codes: NDArray[np.int8]) -> bool:
    """Return whether all codes are those of four bits."""
    return bool(codes.size) and _INT4[0] <= int(codes.min()) and int(codes.max()) <= _INT4[1]


def int4_proto(name: str, codes: NDArray[np.int8]) -> TensorProto:
    """Return codes of four bits as a tensor with two codes per byte, the first in the low bits."""
    nibbles = codes.reshape(-1).view(np.uint8) & 15
    if len(nibbles) % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    packed = nibbles[::2] | nibbles[1::2] << 4
    return helper.make_tensor(name, TensorProto.INT4, codes.shape, packed.tobytes(), raw=True)


def pairs_proto(name: str, pairs: NDArray[np.uint8]) -> TensorProto:
    """Return bytes with two codes of four bits each, ``[.., k / 2]``, as a tensor of the codes."""
    shape = (*pairs.shape[:-1], 2 * pairs.shape[-1])
    data = np.ascontiguousarray(pairs).tobytes()
    return helper.make_tensor(name, TensorProto.INT4, shape, data, raw=True)
