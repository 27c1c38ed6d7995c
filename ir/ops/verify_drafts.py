"""Which draft tokens the main model would have chosen, too."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.places import fits_places, places_of
from ascendfx.ir.step_state import State
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class VerifyDrafts(Op):
    """The number of leading drafts that equal the sampled tokens, and the token behind them.

    Place ``b`` has rows ``b * (drafts + 1) + i``, or those of `PackRows` with ``packed``: row 0
    carries the last emitted token, row ``i`` draft ``i - 1``, and ``sampled`` is the token after
    each row.

    | operand, result | type |
    |---|---|
    | ``token_ids``, ``sampled`` | i32 ``[requests * (drafts + 1)]``, or ``[rows]`` |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` |
    | ``row_start`` | i32 ``[requests]``, the first row of each place; only with ``packed`` |
    | accepted | i32 ``[requests]``: the drafts before the first that differs, at most ``DRAFTED`` |
    | | , and 0 where a place has no rows for them |
    | last rows | i32 ``[requests]``: the row of the last accepted token |
    | new tokens | i32 ``[requests]``: the token sampled there |

    Attributes:
        drafts: Draft tokens of a place.
        packed: Whether places have as many rows as they have drafts, and one.
    """

    mnemonic: ClassVar[str] = "verify_drafts"

    drafts: int
    packed: bool = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return three tables with an element for each place.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        if len(operands) != 3 + self.packed:
            raise OpTypeError(f"verify_drafts: {len(operands)} operands, {3 + self.packed} wanted")
        token_ids, sampled, state, *starts = operands
        rows = places_of(state)
        if any(each != rows for each in starts):
            raise OpTypeError(f"verify_drafts: {starts[0]} are no first rows of the places {state}")
        if rows is None or token_ids != sampled or not fits_places(token_ids, rows, self.drafts):
            raise OpTypeError(
                f"verify_drafts: rows {token_ids} and {sampled} do not fit {self.drafts} drafts of "
                f"the places {state}"
            )
        return rows, rows, rows

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Compare up to the first difference."""
        token_ids, sampled, state, *starts = operands
        columns, drafted = np.arange(self.drafts), state[:, State.DRAFTED]
        start = np.arange(len(state)) * (self.drafts + 1)
        if self.packed:
            (start,), drafted = starts, rows_of_places(state, self.drafts) - 1
        valid = columns < drafted[:, None]
        rows = np.where(valid, start[:, None] + columns, 0)
        agrees = valid & (token_ids[np.where(valid, rows + 1, 0)] == sampled[rows])
        accepted = np.cumprod(agrees, axis=1, dtype=np.int64).sum(axis=1)
        last_rows = start + accepted
        return accepted, last_rows, sampled[last_rows]
