"""Arithmetic with neutral elements, and repetition that broadcasting does anyway."""

import math
from collections.abc import Mapping
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    Constant,
    Divide,
    Equal,
    Expand,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Maximum,
    Minimum,
    Multiply,
    NotEqual,
    Power,
    Select,
    Subtract,
)

_NEUTRAL: Mapping[type[Op], tuple[float | bool, bool]] = {
    Add: (0, True),
    Divide: (1, False),
    LogicalAnd: (True, True),
    LogicalOr: (False, True),
    Multiply: (1, True),
    Power: (1, False),
    Subtract: (0, False),
}
"""The neutral constant, and whether it may also stand first."""
_SIGN_OF_ZERO: Mapping[type[Op], float] = {Add: -1.0, Subtract: 1.0}
"""Of the float zero that is neutral: ``-0.0 + 0.0`` is ``+0.0``, and ``-0.0 - -0.0``, too."""


def drop_neutral_operand(b: GraphBuilder, op: Op, operands: tuple[Value, ...]) -> Value | None:
    """``x - 0``, ``x * 1``, ``x / 1``, ``x ^ 1``, integer ``x + 0`` and the like are x."""
    neutral, commutes = _NEUTRAL[type(op)]
    a, c = operands
    for kept, other in ((a, c), (c, a)) if commutes else ((a, c),):
        constant = b.op_of(other)
        if (
            isinstance(constant, Constant)
            and constant.value == neutral
            and not (constant.dtype.is_float and _is_wrong_zero(op, constant.value))
        ):
            return kept
    return None


def _is_wrong_zero(op: Op, number: float) -> bool:
    return math.copysign(1.0, number) != _SIGN_OF_ZERO.get(type(op), math.copysign(1.0, number))


def drop_expanded_operand(b: GraphBuilder, op: Op, operands: tuple[Value, ...]) -> Value | None:
    """An operand of a broadcasting operation need not be repeated before."""
    (expected,) = op.infer(*map(b.type_of, operands))
    for i, operand in enumerate(operands):
        if not isinstance(b.op_of(operand), Expand):
            continue
        (source,) = b.operands_of(operand)
        shorter = (*operands[:i], source, *operands[i + 1 :])
        if _shape_of(b, op, shorter) == expected:
            return b.add(op, *shorter)
    return None


def select_by_negation(b: GraphBuilder, op: Select, operands: tuple[Value, ...]) -> Value | None:
    """``a where not c else x`` is ``x where c else a``."""
    condition, a, other = operands
    if not isinstance(b.op_of(condition), LogicalNot):
        return None
    return b.add(op, *b.operands_of(condition), other, a)


def _shape_of(b: GraphBuilder, op: Op, operands: tuple[Value, ...]) -> object:
    return op.infer(*map(b.type_of, operands))[0]


_BROADCASTING = (
    Add,
    Divide,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalOr,
    Maximum,
    Minimum,
    Multiply,
    NotEqual,
    Power,
    Select,
    Subtract,
)

TABLE: dict[type[Op], tuple[Any, ...]] = {
    op: ((drop_neutral_operand,) if op in _NEUTRAL else ()) + (drop_expanded_operand,)
    for op in _BROADCASTING
}
TABLE[Select] = (drop_expanded_operand, select_by_negation)
