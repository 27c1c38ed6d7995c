"""Comparison ``>=``."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Comparison


@dataclass(frozen=True, slots=True)
class GreaterEqual(Comparison):
    """``y = a >= b``, with NumPy broadcasting."""

    mnemonic: ClassVar[str] = "greater_equal"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Compare."""
        a, b = operands
        return (np.asarray(a >= b),)
