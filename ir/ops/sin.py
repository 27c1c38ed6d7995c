"""Sine."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary, apply_function


@dataclass(frozen=True, slots=True)
class Sin(Unary):
    """``y = sin a``, radians."""

    mnemonic: ClassVar[str] = "sin"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        return (apply_function("sin", a),)
