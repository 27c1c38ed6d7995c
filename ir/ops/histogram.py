"""Counts of small integers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Histogram(Op):
    """``y[b] = |{i : a[i] = b}|`` for ``b < bins``; other values are not counted.

    The operand is ``[n]`` (integers, or floats that hold integers); the result ``[bins]`` in the
    operand's format.

    Attributes:
        bins: Number of counted values.
    """

    mnemonic: ClassVar[str] = "histogram"

    bins: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[bins]``.

        Raises:
            OpTypeError: The operand has not exactly one axis.
        """
        (a,) = operands
        if a.rank != 1:
            raise OpTypeError(f"histogram: one axis is needed, got {a}")
        return (a.with_shape((self.bins,)),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Count."""
        (a,) = operands
        return (np.asarray((a[None, :] == np.arange(self.bins)[:, None]).sum(axis=1), a.dtype),)
