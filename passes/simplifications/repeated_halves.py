"""Compute on one half of a tensor that holds the same half twice."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    Cast,
    Concat,
    Cos,
    Divide,
    Multiply,
    Negate,
    Reshape,
    Sin,
    Subtract,
)
from ascendfx.passes.reshape_groups import axis_groups


def halve_unary(b: GraphBuilder, op: Op, operands: tuple[Value, ...]) -> Value | None:
    """``f([x|x]) = [f(x)|f(x)]`` elementwise."""
    (x,) = operands
    axis = repeated_axis(b, x)
    if axis is None:
        return None
    y = b.add(op, b.operands_of(x)[0])
    return b.add(Concat(axis), y, y)


def halve_binary(b: GraphBuilder, op: Op, operands: tuple[Value, ...]) -> Value | None:
    """``f([x|x], c) = [f(x, c)|f(x, c)]`` if c does not change along the joined axis."""
    for i, x in enumerate(operands):
        axis = repeated_axis(b, x)
        if axis is None or not _is_constant_along(b, operands[1 - i], axis - b.type_of(x).rank):
            continue
        halves = [operands[1 - i], operands[1 - i]]
        halves[i] = b.operands_of(x)[0]
        y = b.add(op, *halves)
        return b.add(Concat(b.type_of(y).rank - b.type_of(x).rank + axis), y, y)
    return None


def _is_constant_along(b: GraphBuilder, x: Value, axis_from_end: int) -> bool:
    shape = b.type_of(x).shape
    return len(shape) < -axis_from_end or shape[axis_from_end] == 1


def halve_reshape(b: GraphBuilder, op: Reshape, operands: tuple[Value, ...]) -> Value | None:
    """A reshape that leaves the joined axis alone can be done on one half."""
    (x,) = operands
    axis = repeated_axis(b, x)
    if axis is None:
        return None
    for group in axis_groups(b.type_of(x).shape, op.shape):
        if group.before == (axis,) and len(group.after) == 1:
            (half,) = set(b.operands_of(x))
            place = group.after[0]
            shape = (*op.shape[:place], b.type_of(half).shape[axis], *op.shape[place + 1 :])
            y = b.add(Reshape(shape), half)
            return b.add(Concat(place), y, y)
    return None


def repeated_axis(b: GraphBuilder, x: Value) -> int | None:
    """Return the axis along which ``x`` is ``concat h, h``, if it is."""
    op = b.op_of(x)
    if not isinstance(op, Concat):
        return None
    operands = b.operands_of(x)
    return op.axis if len(operands) == 2 and operands[0] == operands[1] else None


_UNARY = (Cast, Cos, Negate, Sin)
_BINARY = (Add, Divide, Multiply, Subtract)

TABLE: dict[type[Op], tuple[Any, ...]] = {
    **dict.fromkeys(_UNARY, (halve_unary,)),
    **dict.fromkeys(_BINARY, (halve_binary,)),
    Reshape: (halve_reshape,),
}
