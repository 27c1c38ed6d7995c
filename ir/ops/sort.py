"""Stable sorting of an axis."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Sort(Op):
    """The elements of an axis in order, and where they came from (``i64``); stable.

    Attributes:
        axis: Counted from zero.
        descending: Largest first.
    """

    mnemonic: ClassVar[str] = "sort"

    axis: int
    descending: bool = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return values and indices.

        Raises:
            OpTypeError: The axis does not exist.
        """
        (a,) = operands
        if not 0 <= self.axis < a.rank:
            raise OpTypeError(f"sort: {a} has no axis {self.axis}")
        return (a, TensorType(DType.I64, a.shape))

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Sort."""
        (a,) = operands
        ids = np.argsort(-a if self.descending else a, axis=self.axis, kind="stable")
        return np.take_along_axis(a, ids, self.axis), ids
