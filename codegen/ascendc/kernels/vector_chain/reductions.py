"""Reductions over the last axis, and the operations made of them."""

from collections.abc import Mapping

from ascendfx.codegen.ascendc.kernels.vector_chain.builder import ChainBuilder, Number, Operand
from ascendfx.codegen.ascendc.kernels.vector_chain.elementwise import Lowering, divide
from ascendfx.ir import ops
from ascendfx.ir.op import Op


def _sum(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return builder.reduce("ReduceSum", operands[0])


def _mean(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    columns = builder.layout(operands[0]).columns
    return divide(builder, builder.reduce("ReduceSum", operands[0]), Number(float(columns)))


def _max(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    return builder.reduce("ReduceMax", operands[0])


def _rms_norm(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    if not isinstance(op, ops.RmsNorm):
        raise TypeError("the table pairs operations with their lowering")
    x, gain = operands
    mean = _mean(builder, op, (builder.combine("Mul", x, x),))
    root = builder.apply("Sqrt", builder.apply_number("Adds", mean, op.eps))
    inverse = divide(builder, Number(1.0), root)
    return builder.combine("Mul", builder.combine("Mul", x, inverse), gain)


def _softmax(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    del op
    maximum = builder.reduce("ReduceMax", operands[0])
    powers = builder.apply("Exp", builder.combine("Sub", operands[0], maximum))
    return builder.combine("Div", powers, builder.reduce("ReduceSum", powers))


REDUCTIONS: Mapping[type[Op], Lowering] = {
    ops.ReduceMax: _max,
    ops.ReduceMean: _mean,
    ops.ReduceSum: _sum,
    ops.RmsNorm: _rms_norm,
    ops.Softmax: _softmax,
}
