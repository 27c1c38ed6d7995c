"""Reciprocal."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary


@dataclass(frozen=True, slots=True)
class Reciprocal(Unary):
    """``y = 1 / a``."""

    mnemonic: ClassVar[str] = "reciprocal"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        return (1 / a,)
