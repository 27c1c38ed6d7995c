"""Rotary position embedding inside a chain."""

from ascendfx.codegen.ascendc.kernels.vector_chain.builder import ChainBuilder, Operand, Parts
from ascendfx.ir import ops
from ascendfx.ir.op import Op


def lower_rotary(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    """Append ``(u cos - v sin, v cos + u sin)`` for the pairs ``(u, v)`` of the last axis."""
    if not isinstance(op, ops.Rotary):
        raise TypeError("the table pairs operations with their lowering")
    x, cos, sin = operands
    columns = builder.layout(x).columns
    half = columns // 2
    if op.interleaved_in:
        u, v = (builder.columns(x, i, columns - 1 + i, 2) for i in (0, 1))
    else:
        u, v = builder.columns(x, 0, half, 1), builder.columns(x, half, columns, 1)
    first = builder.combine("Sub", builder.combine("Mul", u, cos), builder.combine("Mul", v, sin))
    second = builder.combine("Add", builder.combine("Mul", v, cos), builder.combine("Mul", u, sin))
    if op.interleaved_out:
        return builder.interleave(first, second)
    return Parts((first, second))
