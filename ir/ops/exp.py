"""Natural exponential."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary, apply_function


@dataclass(frozen=True, slots=True)
class Exp(Unary):
    """``y = e^a``."""

    mnemonic: ClassVar[str] = "exp"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        with np.errstate(over="ignore"):
            return (apply_function("exp", a),)
