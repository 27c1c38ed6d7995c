"""Sum."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Binary


@dataclass(frozen=True, slots=True)
class Add(Binary):
    """``y = a + b``, with NumPy broadcasting."""

    mnemonic: ClassVar[str] = "add"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        a, b = operands
        return (a + b,)
