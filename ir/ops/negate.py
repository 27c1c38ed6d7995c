"""Sign change."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary


@dataclass(frozen=True, slots=True)
class Negate(Unary):
    """``y = -a``."""

    mnemonic: ClassVar[str] = "negate"
    float_only: ClassVar[bool] = False

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        return (-a,)
