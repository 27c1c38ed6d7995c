"""Gated activation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.pointwise import apply_function
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Swiglu(Op):
    """``y = silu(gate) * up``, equal shapes (Shazeer, arXiv 2002.05202, eq. 5)."""

    mnemonic: ClassVar[str] = "swiglu"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the common type.

        Raises:
            OpTypeError: The types differ or are not floats.
        """
        gate, up = operands
        if gate != up or not gate.dtype.is_float:
            raise OpTypeError(f"swiglu: gate {gate} and up {up} must be equal float types")
        return (gate,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Gate."""
        gate, up = operands
        with np.errstate(over="ignore"):
            return (gate / (1 + apply_function("exp", -gate)) * up,)
