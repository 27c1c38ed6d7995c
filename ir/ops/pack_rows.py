"""The rows of a decode step without placeholders: as many of each place as it has drafts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.places import fits_places, places_of
from ascendfx.ir.size import Dim, bind_size
from ascendfx.ir.step_state import SIZE_COLUMNS, Size
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class PackRows(Op):
    """Moves the rows of all places together, and counts them for everything behind it.

    Place ``b`` has rows ``b * (drafts + 1) + i`` in the operands. Of these it keeps the first, and
    one for each of its ``DRAFTED`` drafts; a place that has ended keeps one, whose slot is -1, so
    that no step is without rows. (One whose logits were not finite keeps all, so that the host can
    see which.) Places stay in order.

    | operand | type | result |
    |---|---|---|
    | ``token_ids``, ``positions``, ``slots`` | i32 ``[requests * (drafts + 1)]`` | |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` | |
    | ``sizes`` | i32 ``[8]``, see `ascendfx.ir.step_state.Size` | 5, in place |

    | result | type |
    |---|---|
    | 0 ids, 1 positions, 2 slots | i32 ``[rows]`` |
    | 3 requests of rows | i32 ``[rows]`` |
    | 4 row starts | i32 ``[requests]``: the first row of each place |
    | 5 sizes | their number in ``PACKED_ROWS``, ``pairs`` times that in ``PACKED_PAIRS`` |

    ``rows`` is a size of its own: on the device it is that number, which no host knows; wherever
    sizes are fixed it is the most there can be, and rows behind the last are padding that nobody
    looks at, with id 0, position 0, slot -1 and request 0.

    Attributes:
        drafts: Draft tokens of a place at most.
        rows: Number of rows.
        pairs: Experts of a row; 0 without.
    """

    mnemonic: ClassVar[str] = "pack_rows"
    in_place: ClassVar[Mapping[int, int]] = {5: 4}

    drafts: int
    rows: Dim
    pairs: int = 0

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the types of rows, row starts and sizes.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        token_ids, positions, slots, state, sizes = operands
        places = places_of(state)
        if places is None or not fits_places(token_ids, places, self.drafts):
            raise OpTypeError(
                f"pack_rows: rows {token_ids} do not fit {self.drafts} drafts of the places {state}"
            )
        if not token_ids == positions == slots:
            raise OpTypeError(f"pack_rows: {positions} and {slots} must be {token_ids}")
        if sizes != TensorType(DType.I32, (SIZE_COLUMNS,)) or self.pairs < 0:
            raise OpTypeError(f"pack_rows: {sizes} holds no sizes, or {self.pairs} pairs a row")
        packed = TensorType(DType.I32, (self.rows,))
        if not fits_places(packed, places, self.drafts):
            raise OpTypeError(f"pack_rows: {packed} has no room for all rows of {token_ids}")
        return packed, packed, packed, packed, places, sizes

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Copy place by place; fill up."""
        *rows, state, sizes = operands
        each = rows_of_places(state, self.drafts)
        ends = np.cumsum(each)
        place = np.repeat(np.arange(len(each)), each)
        chosen = np.arange(len(place)) - (ends - each)[place] + place * (self.drafts + 1)
        padding = bind_size(self.rows, {}) - len(place)
        sizes = sizes.copy()
        sizes[Size.PACKED_ROWS] = len(place)
        sizes[Size.PACKED_PAIRS] = len(place) * self.pairs
        kept = (*(row[chosen] for row in rows), place)
        filled = (
            np.append(values, np.full(padding, filler))
            for values, filler in zip(kept, (0, 0, -1, 0), strict=True)
        )
        return *filled, ends - each, sizes
