"""Elementwise operations as vector instructions.

Accuracy: quotients use `Div`, which rounds correctly, never `Reciprocal` or `Rsqrt`, whose error
is not documented. A division by a power of two becomes an exact multiplication.
"""

import math
from collections.abc import Callable, Mapping

from ascendfx.codegen.ascendc.kernels.vector_chain.builder import (
    ChainBuilder,
    Number,
    Operand,
)
from ascendfx.ir import ops
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Op

Lowering = Callable[[ChainBuilder, Op, tuple[Operand, ...]], Operand]
"""Appends the steps of one operation and returns its result."""

_INSTRUCTIONS: Mapping[type[Op], str] = {
    ops.Exp: "Exp",
    ops.Log: "Ln",
    ops.Relu: "Relu",
    ops.Sqrt: "Sqrt",
    ops.Add: "Add",
    ops.Subtract: "Sub",
    ops.Multiply: "Mul",
    ops.Divide: "Div",
    ops.Maximum: "Max",
    ops.Minimum: "Min",
}
_COMMUTATIVE: Mapping[type[Op], str] = {
    ops.Add: "Adds",
    ops.Multiply: "Muls",
    ops.Maximum: "Maxs",
    ops.Minimum: "Mins",
}
_LARGEST_POWER = 8

NEAREST = "Nearest"
"""Stands for a cast of f32 to whole numbers in f32, ties to even."""


def divide(builder: ChainBuilder, left: Operand, right: Operand) -> Operand:
    """Append a quotient."""
    if isinstance(right, Number) and math.frexp(right.value)[0] in (0.5, -0.5):
        return builder.apply_number("Muls", left, 1.0 / right.value)
    return builder.combine("Div", left, right)


def one_plus_exp_minus(builder: ChainBuilder, x: Operand) -> Operand:
    """Append ``1 + e^-x``."""
    negated = builder.apply_number("Muls", x, -1.0)
    return builder.apply_number("Adds", builder.apply("Exp", negated), 1.0)


def silu(builder: ChainBuilder, x: Operand) -> Operand:
    """Append ``x / (1 + e^-x)``."""
    return divide(builder, x, one_plus_exp_minus(builder, x))


def _unary(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    return builder.apply(_INSTRUCTIONS[type(op)], operands[0])


def _negate(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return builder.apply_number("Muls", operands[0], -1.0)


def _reciprocal(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return divide(builder, Number(1.0), operands[0])


def _rsqrt(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return divide(builder, Number(1.0), builder.apply("Sqrt", operands[0]))


def _sigmoid(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return divide(builder, Number(1.0), one_plus_exp_minus(builder, operands[0]))


def _silu(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return silu(builder, operands[0])


def _swiglu(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    gate, up = operands
    return builder.combine("Mul", silu(builder, gate), up)


def _cast(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    """Do nothing: values are f32 until they are stored, and rounded once; codes are whole."""
    del builder, op
    return operands[0]


def _round(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return builder.apply(NEAREST, operands[0])


def _binary(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    left, right = operands
    kind = type(op)
    if kind in _COMMUTATIVE:
        if isinstance(left, Number):
            left, right = right, left
        if isinstance(right, Number):
            return builder.apply_number(_COMMUTATIVE[kind], left, right.value)
    if kind is ops.Subtract:
        if isinstance(right, Number):
            return builder.apply_number("Adds", left, -right.value)
        if isinstance(left, Number):
            negated = builder.apply_number("Muls", right, -1.0)
            return builder.apply_number("Adds", negated, left.value)
    if kind is ops.Divide:
        return divide(builder, left, right)
    return builder.combine(_INSTRUCTIONS[kind], left, right)


def _power(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    base, exponent = operands
    if not isinstance(exponent, Number):
        raise OpTypeError("the exponent is no constant")
    twice = 2 * exponent.value
    if twice != int(twice) or not 0 < abs(twice) <= 2 * _LARGEST_POWER:
        raise OpTypeError(f"the exponent {exponent.value} has no instruction sequence")
    whole, half = divmod(int(abs(twice)), 2)
    root: Operand | None = builder.apply("Sqrt", base) if half else None
    result = _whole_power(builder, base, whole, root)
    return result if twice > 0 else divide(builder, Number(1.0), result)


def _whole_power(
    builder: ChainBuilder, base: Operand, exponent: int, result: Operand | None
) -> Operand:
    """Return ``result · base^exponent`` by repeated squaring."""
    square = base
    while exponent:
        if exponent & 1:
            result = square if result is None else builder.combine("Mul", result, square)
        exponent >>= 1
        if exponent:
            square = builder.combine("Mul", square, square)
    if result is None:
        raise AssertionError("the exponent is not zero")
    return result


ELEMENTWISE: Mapping[type[Op], Lowering] = {
    ops.Add: _binary,
    ops.Cast: _cast,
    ops.Divide: _binary,
    ops.Exp: _unary,
    ops.Log: _unary,
    ops.Maximum: _binary,
    ops.Minimum: _binary,
    ops.Multiply: _binary,
    ops.Negate: _negate,
    ops.Power: _power,
    ops.Reciprocal: _reciprocal,
    ops.Relu: _unary,
    ops.Round: _round,
    ops.Rsqrt: _rsqrt,
    ops.Sigmoid: _sigmoid,
    ops.Silu: _silu,
    ops.Sqrt: _unary,
    ops.Subtract: _binary,
    ops.Swiglu: _swiglu,
}
