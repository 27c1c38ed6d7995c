"""Rows of a table, chosen by number."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class GatherRows(Op):
    """``y[*i, ...] = table[ids[*i], ...]``: embedding lookup and row permutation.

    ``table`` is ``[rows, *d]``, ``ids`` an integer tensor ``[*i]``, the result ``[*i, *d]``.
    """

    mnemonic: ClassVar[str] = "gather_rows"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[*i, *d]``.

        Raises:
            OpTypeError: The ids are not integers, or the table has no axes.
        """
        table, ids = operands
        if ids.dtype not in (DType.I32, DType.I64) or table.rank < 1:
            raise OpTypeError(
                f"gather_rows: ids must be integers and the table have rows, got {table} and {ids}"
            )
        return (table.with_shape((*ids.shape, *table.shape[1:])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Look up."""
        table, ids = operands
        return (table[ids],)
