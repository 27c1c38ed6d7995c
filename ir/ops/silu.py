"""Sigmoid-weighted linear unit."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary, apply_function


@dataclass(frozen=True, slots=True)
class Silu(Unary):
    """``y = a / (1 + e^-a)`` (Elfwing et al., arXiv 1702.03118, eq. 4)."""

    mnemonic: ClassVar[str] = "silu"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        with np.errstate(over="ignore"):
            return (a / (1 + apply_function("exp", -a)),)
