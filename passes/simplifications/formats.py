"""Format conversions that change nothing."""

from typing import Any

import numpy as np

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Cast, Constant, Expand, GatherRows, GroupedLinear, TakeAlong
from ascendfx.ir.tensor_type import DType

_EXACT = {
    DType.F16: (DType.F32, DType.F64),
    DType.BF16: (DType.F32, DType.F64),
    DType.F32: (DType.F64,),
    DType.I8: (DType.I32, DType.I64, DType.F16, DType.BF16, DType.F32, DType.F64),
    DType.I32: (DType.I64, DType.F64),
    DType.BOOL: tuple(each for each in DType if each is not DType.BOOL),
}
"""Formats that hold every value of another."""


def drop_cast(b: GraphBuilder, op: Cast, operands: tuple[Value, ...]) -> Value | None:
    """A cast to the same format, or there and back through a wider one, changes nothing."""
    (x,) = operands
    kind = b.type_of(x).dtype
    if kind is op.dtype:
        return x
    if not isinstance(b.op_of(x), Cast):
        return None
    (source,) = b.operands_of(x)
    narrow = b.type_of(source).dtype
    if kind not in _EXACT.get(narrow, ()):
        return None
    return source if narrow is op.dtype else b.add(op, source)


def cast_constant(b: GraphBuilder, op: Cast, operands: tuple[Value, ...]) -> Value | None:
    """A number that both formats hold exactly is written in the second one."""
    constant = b.op_of(operands[0])
    if not isinstance(constant, Constant):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.asarray(constant.value).astype(op.dtype.numpy).astype(np.float64)
    if float(value) != float(constant.value):
        return None
    number = float(value) if op.dtype.is_float else int(value)
    return b.add(Constant(bool(number) if op.dtype is DType.BOOL else number, op.dtype))


def cast_before_expand(b: GraphBuilder, op: Cast, operands: tuple[Value, ...]) -> Value | None:
    """Convert before repeating, not after."""
    (x,) = operands
    repeat = b.op_of(x)
    if not isinstance(repeat, Expand):
        return None
    return b.add(repeat, b.add(op, *b.operands_of(x)))


def drop_widened_index(b: GraphBuilder, op: Op, operands: tuple[Value, ...]) -> Value | None:
    """Row numbers need not be widened to i64 before they are used."""
    place = _INDEX_OPERAND[type(op)]
    index = operands[place]
    if not isinstance(b.op_of(index), Cast) or b.type_of(index).dtype is not DType.I64:
        return None
    (source,) = b.operands_of(index)
    if b.type_of(source).dtype is not DType.I32:
        return None
    return b.add(op, *operands[:place], source, *operands[place + 1 :])


_INDEX_OPERAND: dict[type[Op], int] = {GatherRows: 1, GroupedLinear: 2, TakeAlong: 1}

TABLE: dict[type[Op], tuple[Any, ...]] = {
    Cast: (drop_cast, cast_constant, cast_before_expand),
    **dict.fromkeys(_INDEX_OPERAND, (drop_widened_index,)),
}
