"""Cosine."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary, apply_function


@dataclass(frozen=True, slots=True)
class Cos(Unary):
    """``y = cos a``, radians."""

    mnemonic: ClassVar[str] = "cos"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        return (apply_function("cos", a),)
