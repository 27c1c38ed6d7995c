"""Order of the token-expert pairs by expert."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import product
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class DispatchExperts(Op):
    """A stable sort of all (token, choice) pairs by expert.

    Pair ``p = row * k + j`` of ``ids [rows, k]`` goes to place ``place[p]``. Results:
    ``source_row [rows*k]`` i32 (the row of the pair at each place), ``place [rows*k]`` i32, and
    ``ends [experts]`` i32 (number of pairs of experts 0..e inclusive).

    Attributes:
        experts: Number of experts.
    """

    mnemonic: ClassVar[str] = "dispatch_experts"

    experts: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the types of the three tables.

        Raises:
            OpTypeError: The ids are not ``[rows, k]`` integers.
        """
        (ids,) = operands
        if ids.rank != 2 or ids.dtype not in (DType.I32, DType.I64):
            raise OpTypeError(f"dispatch_experts: [rows, k] integers are needed, got {ids}")
        pairs = TensorType(DType.I32, (product(ids.shape),))
        return pairs, pairs, TensorType(DType.I32, (self.experts,))

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Sort."""
        (ids,) = operands
        flat = ids.reshape(-1)
        order = np.argsort(flat, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        ends = np.cumsum(np.bincount(flat, minlength=self.experts))
        return order // ids.shape[1], place, ends
