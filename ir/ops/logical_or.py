"""Disjunction."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Binary


@dataclass(frozen=True, slots=True)
class LogicalOr(Binary):
    """``y = a or b`` for ``bool``, with NumPy broadcasting."""

    mnemonic: ClassVar[str] = "logical_or"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        a, b = operands
        return (a.astype(bool) | b.astype(bool),)
