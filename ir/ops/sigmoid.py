"""Logistic function."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary, apply_function


@dataclass(frozen=True, slots=True)
class Sigmoid(Unary):
    """``y = 1 / (1 + e^-a)``."""

    mnemonic: ClassVar[str] = "sigmoid"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        with np.errstate(over="ignore"):
            return (1 / (1 + apply_function("exp", -a)),)
