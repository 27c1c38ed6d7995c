"""Codes of eight bits as digits of four."""

from ascendfx.codegen.ascendc.kernels.vector_chain.builder import ChainBuilder, Digits, Operand
from ascendfx.codegen.ascendc.kernels.vector_chain.elementwise import NEAREST
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Op


def split_codes(builder: ChainBuilder, op: Op, operands: tuple[Operand, ...]) -> Operand:
    """Append ``high = round((x + 1/2) / 16)``, which is no tie, and ``low = x - 16 high``.

    Of whole numbers below 2^19 everything is exact.
    """
    del op
    (x,) = operands
    if builder.layout(x).groups != 1:
        raise OpTypeError("lines of several groups are not split into digits")
    nearest = builder.apply_number("Adds", builder.apply_number("Muls", x, 1 / 16), 1 / 32)
    high = builder.apply(NEAREST, nearest)
    low = builder.combine("Sub", x, builder.apply_number("Muls", high, 16.0))
    return Digits(high, low)
