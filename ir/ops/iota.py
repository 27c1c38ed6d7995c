"""Counting."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim, bind_size
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Iota(Op):
    """``y[i] = start + i * step`` for ``i < size``.

    Attributes:
        size: Number of elements.
        dtype: Element format.
        start: First value.
        step: Distance of neighbours.
    """

    mnemonic: ClassVar[str] = "iota"

    size: Dim
    dtype: DType
    start: int = 0
    step: int = 1

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[size]``."""
        return (TensorType(self.dtype, (self.size,)),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Count."""
        numbers = self.start + self.step * np.arange(bind_size(self.size, {}))
        return (numbers.astype(np.float64) if self.dtype.is_float else numbers,)
