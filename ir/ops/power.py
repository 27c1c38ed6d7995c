"""Power."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Binary


@dataclass(frozen=True, slots=True)
class Power(Binary):
    """``y = a ^ b``, with NumPy broadcasting."""

    mnemonic: ClassVar[str] = "power"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        a, b = operands
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return (a**b,)
