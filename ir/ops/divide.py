"""Quotient."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Binary


@dataclass(frozen=True, slots=True)
class Divide(Binary):
    """``y = a / b`` for floats, the floor of the quotient for integers, with NumPy broadcasting."""

    mnemonic: ClassVar[str] = "divide"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        a, b = operands
        if a.dtype.kind in "iu" and b.dtype.kind in "iu":
            return (a // b,)
        return (a / b,)
