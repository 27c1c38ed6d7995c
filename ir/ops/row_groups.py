"""The group that each row belongs to."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim, bind_size
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class RowGroups(Op):
    r"""The group of each row of a `GroupedLinear`, to look up what the groups have of their own.

    .. math:: y_p = \min(|\{e : \mathrm{ends}_e \le p\}|,\ \mathrm{groups} - 1)

    ========  =============  ==============================================================
    operand   shape          note
    ========  =============  ==============================================================
    ends      ``[groups]``   integers, ascending: number of rows in groups 0..e inclusive
    result    ``[size]``     ``i32``; rows behind the last end count as those of the last group
    ========  =============  ==============================================================

    Attributes:
        size: Number of rows.
    """

    mnemonic: ClassVar[str] = "row_groups"

    size: Dim

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[size]``.

        Raises:
            OpTypeError: The ends are no list of integers.
        """
        (ends,) = operands
        if ends.rank != 1 or ends.dtype not in (DType.I32, DType.I64) or ends.shape[0] == 0:
            raise OpTypeError(f"row_groups: a list of integers is needed, got {ends}")
        return (TensorType(DType.I32, (self.size,)),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Search."""
        (ends,) = operands
        rows = np.arange(bind_size(self.size, {}))
        return (np.minimum(np.searchsorted(ends, rows, side="right"), ends.size - 1),)
