"""Reciprocal square root."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary, apply_function


@dataclass(frozen=True, slots=True)
class Rsqrt(Unary):
    """``y = a^(-1/2)``."""

    mnemonic: ClassVar[str] = "rsqrt"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        with np.errstate(divide="ignore", invalid="ignore"):
            return (1 / apply_function("sqrt", a),)
