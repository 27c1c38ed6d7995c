"""Rows replaced by number."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class ScatterRows(Op):
    """A copy of ``table`` with ``y[ids[i], ...] = rows[i, ...]``.

    ``table`` is ``[n, *d]``, ``ids`` an integer tensor ``[r]``, ``rows`` is ``[r, *d]``. Duplicate
    ids are the caller's error.
    """

    mnemonic: ClassVar[str] = "scatter_rows"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of ``table``.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        table, ids, rows = operands
        fits = ids.rank == 1 and rows.shape == (*ids.shape, *table.shape[1:])
        if not fits or rows.dtype is not table.dtype or ids.dtype not in (DType.I32, DType.I64):
            raise OpTypeError(f"scatter_rows: ids {ids} and rows {rows} do not fit {table}")
        return (table,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Replace."""
        table, ids, rows = operands
        result = table.astype(np.result_type(table, rows))
        result[ids] = rows
        return (result,)
