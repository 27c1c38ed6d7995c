"""Larger of two."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Binary


@dataclass(frozen=True, slots=True)
class Maximum(Binary):
    """``y = max(a, b)``, with NumPy broadcasting."""

    mnemonic: ClassVar[str] = "maximum"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        a, b = operands
        return (np.maximum(a, b),)
