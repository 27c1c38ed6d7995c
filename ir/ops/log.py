"""Natural logarithm."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary, apply_function


@dataclass(frozen=True, slots=True)
class Log(Unary):
    """``y = ln a``."""

    mnemonic: ClassVar[str] = "log"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        return (apply_function("log", a),)
