"""Negation of truth values."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary


@dataclass(frozen=True, slots=True)
class LogicalNot(Unary):
    """``y = not a`` for ``bool``."""

    mnemonic: ClassVar[str] = "logical_not"
    float_only: ClassVar[bool] = False

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        return (~a.astype(bool),)
