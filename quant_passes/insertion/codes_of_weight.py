"""Codes and scales of a weight as a weight program: rounded to nearest, made tensor by tensor."""

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import (
    Cast,
    Constant,
    Divide,
    Maximum,
    Negate,
    PackCodes,
    Param,
    ReduceMax,
    Reshape,
    Round,
)
from ascendfx.ir.tensor_type import DType, TensorType

SMALLEST = 1e-30
"""Stands for the largest magnitude of a row that is smaller, or zero: its codes are zero, and the
scale is a normal number of f32."""


def codes_name(name: str) -> str:
    """Return the name of the codes of a weight, in a function or in a source of tensors."""
    return f"{name}#codes"


def scale_name(name: str) -> str:
    """Return the name of the scales of a weight."""
    return f"{name}#scale"


def codes_type(weight: TensorType, *, pairs: bool = False) -> TensorType:
    """Return the type of the codes of a weight ``[.., out, in]``: ``i8`` of the same shape.

    In pairs ``i4x2[.., out, in / 2]``.
    """
    if pairs:
        return TensorType(DType.I4X2, (*weight.shape[:-1], weight.shape[-1] // 2))
    return TensorType(DType.I8, weight.shape)


def scale_type(weight: TensorType) -> TensorType:
    """Return the type of the scales of a weight ``[.., out, in]``: ``f32[.., out]``."""
    return TensorType(DType.F32, weight.shape[:-1])


def codes_recipe(name: str, kind: TensorType, largest: int, *, pairs: bool = False) -> Graph:
    """Return the program of ``round(w / s)``, with ``s`` as `scale_recipe` has it.

    Both are evaluated in float64, so that the codes are those of the scales before these were
    rounded to f32. They are those of ``round_to_nearest`` with a rule that computes in float64.

    Args:
        name: The weight.
        kind: Its type, ``[.., out, in]``.
        largest: The largest code.
        pairs: Whether two of them lie in a byte.
    """
    builder = GraphBuilder(codes_name(name))
    wide = _widened(builder, name, kind)
    scale = _scale(builder, wide, largest)
    codes = builder.add(Round(), builder.add(Divide(), wide, scale))
    return builder.build(builder.add(PackCodes() if pairs else Cast(DType.I8), codes))


def scale_recipe(name: str, kind: TensorType, largest: int) -> Graph:
    """Return the program of ``s = max |w| / largest`` of each output channel, ``f32[.., out]``.

    Args:
        name: The weight.
        kind: Its type, ``[.., out, in]``.
        largest: The largest code.
    """
    builder = GraphBuilder(scale_name(name))
    scale = _scale(builder, _widened(builder, name, kind), largest)
    return builder.build(builder.add(Reshape(scale_type(kind).shape), scale))


def largest_magnitude(builder: GraphBuilder, x: Value) -> Value:
    """Return ``max |x|`` over the last axis, which stays, and at least `SMALLEST`."""
    both = builder.add(Maximum(), x, builder.add(Negate(), x))
    top = builder.add(ReduceMax((builder.type_of(x).rank - 1,)), both)
    return builder.add(Maximum(), top, builder.leaf(Constant(SMALLEST, DType.F32)))


def _widened(builder: GraphBuilder, name: str, kind: TensorType) -> Value:
    weight = builder.add(Param(name, kind))
    return weight if kind.dtype is DType.F32 else builder.add(Cast(DType.F32), weight)


def _scale(builder: GraphBuilder, wide: Value, largest: int) -> Value:
    divisor = builder.add(Constant(float(largest), DType.F32))
    return builder.add(Divide(), largest_magnitude(builder, wide), divisor)
