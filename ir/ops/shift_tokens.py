"""The tokens of a draft layer: those of the layer before, one place further."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class ShiftTokens(Op):
    """Row ``r`` takes the token of row ``r + 1``; the last row of a request takes a new one.

    With ``q = row_request[r]``: ``ids[r + 1]`` before ``last_rows[q]``; there
    ``known_tokens[q, depth]`` if that is not negative, else ``new[q]``; behind it ``ids[r]``,
    because those rows are rejected drafts.

    | operand | type |
    |---|---|
    | ``ids``, ``row_request`` | i32 ``[rows]`` |
    | ``last_rows``, ``new`` | i32 ``[requests]`` |
    | ``known_tokens`` | i32 ``[requests, k]``, ``depth < k``; only if ``known`` |

    The operands are ``ids, last_rows, row_request, new[, known_tokens]``.

    Attributes:
        depth: Draft layers before this one.
        known: Whether the tokens behind a chunk of the prompt are given.
    """

    mnemonic: ClassVar[str] = "shift_tokens"

    depth: int
    known: bool = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of the tokens.

        Raises:
            OpTypeError: The number of operands, their shapes or formats do not fit.
        """
        if len(operands) != 4 + self.known:
            raise OpTypeError(f"shift_tokens: {len(operands)} operands, {4 + self.known} wanted")
        ids, last_rows, row_request, new, *known = operands
        whole = all(kind.dtype is DType.I32 for kind in operands)
        fits = ids == row_request and last_rows == new and ids.rank == new.rank == 1
        if not whole or not fits:
            raise OpTypeError(
                f"shift_tokens: rows {ids} and {row_request} with the requests {last_rows} and "
                f"{new} are no i32 [rows] and [requests]"
            )
        for table in known:
            columns = table.shape[-1] if table.rank == 2 and table.shape[:1] == new.shape else 0
            if isinstance(columns, int) and not 0 <= self.depth < columns:
                raise OpTypeError(f"shift_tokens: known tokens {table} have no depth {self.depth}")
        return (ids,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose for each row."""
        ids, last_rows, row_request, new, *known = operands
        given = known[0][:, self.depth] if known else np.full_like(new, -1)
        appended = np.where(given >= 0, given, new)[row_request]
        rows, last = np.arange(len(ids)), last_rows[row_request]
        following = np.append(ids[1:], ids[-1:])
        return (np.where(rows < last, following, np.where(rows == last, appended, ids)),)
