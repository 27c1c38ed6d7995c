"""Rectifier."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary


@dataclass(frozen=True, slots=True)
class Relu(Unary):
    """``y = max(a, 0)``."""

    mnemonic: ClassVar[str] = "relu"
    float_only: ClassVar[bool] = False

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        return (np.maximum(a, 0),)
