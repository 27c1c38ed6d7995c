"""Rows of draft layers that end at the last accepted token."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.cache_block import slots_of
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.places import fits_places, places_of
from ascendfx.ir.size import Dim, bind_size
from ascendfx.ir.step_state import RECENT_COLUMNS, Finish, State, hidden_window
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class AlignDrafts(Op):
    """Moves the rows of each place back by its rejected drafts, for draft layers that chain.

    A draft layer at depth ``j`` puts an entry into its cache for the position of the last accepted
    token, made of ``j`` tokens that are drafts themselves. Where the main model rejects them, the
    entry is wrong from then on. Row ``i`` of place ``b`` therefore stands for the position
    ``LENGTH + accepted - drafts + i``: the last row is that of the last accepted token, and the
    rows before it reach back to every entry that the step has shown to be wrong.

    | operand | type |
    |---|---|
    | ``token_ids`` | i32 ``[requests * (drafts + 1)]`` |
    | ``block_table`` | i32 ``[requests, table_blocks]`` |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` |
    | ``accepted``, ``new_tokens`` | i32 ``[requests]``, of `VerifyDrafts` |
    | ``recent`` | i32 ``[requests, 8]``: the tokens before ``LENGTH``, newest first |
    | ``path`` | i32 ``[requests, nodes]``, of `VerifyTree`; only with ``nodes`` |
    | ``row_start`` | i32 ``[requests]``, of `PackRows`; only with ``packed`` |

    | result | type |
    |---|---|
    | 0 ids | i32 ``[rows]``: the token behind the row's position, in the last row the new one |
    | 1 positions, 2 slots | i32 ``[rows]`` |
    | 3 last rows | i32 ``[requests]``: ``b * (drafts + 1) + drafts`` |
    | 4 kept at | i32 ``[rows]``, or ``[packed]``: where the hidden state of each row of the |
    | | *main* model is kept, ``b * window + position mod window``; window: ``2 * drafts + 1`` |
    | 5 found at | i32 ``[rows]``: where the hidden state of each draft row is kept |
    | 6 recent | in place: the tokens before ``LENGTH + accepted + 1`` |

    Rows before the text have token 0, position 0 and slot -1. Places that do not run keep nothing:
    slots and results 4 are -1.

    With ``nodes``, the rows of the main model are those of a tree whose longest path has ``drafts``
    drafts, and a place has as many draft rows, so that both have the same row numbers. Tokens and
    hidden states are those along the path; of other nodes nothing is kept. The first ``drafts + 1``
    draft rows are those above; the last of them is the last row; those behind it are as rows before
    the text: they see one token and store nothing.

    Attributes:
        drafts: Draft tokens that can be accepted together, at least 1 and at most 8.
        block: Tokens of a block of the caches.
        nodes: Rows of a place in a tree; 0: the rows are a chain.
        packed: Rows of the main model if `PackRows` made them; 0: it has those of the operand.
    """

    mnemonic: ClassVar[str] = "align_drafts"
    in_place: ClassVar[Mapping[int, int]] = {6: 5}

    drafts: int
    block: int = 128
    nodes: int = 0
    packed: Dim = 0

    @property
    def rows(self) -> int:
        """Rows of a place."""
        return self.nodes or self.drafts + 1

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the types of rows, last rows and recent tokens.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        token_ids, table, state, accepted, new, recent, *more = operands
        places = places_of(state)
        trees, packs = bool(self.nodes), self.packed != 0
        if len(more) != trees + packs or (trees and packs) or self.rows <= self.drafts:
            raise OpTypeError(
                f"align_drafts: {len(operands)} operands do not fit {self.drafts} drafts on a path "
                f"of {self.nodes} nodes, {self.packed} packed rows"
            )
        if places is None or not fits_places(token_ids, places, self.rows - 1):
            raise OpTypeError(
                f"align_drafts: rows {token_ids} do not fit {self.drafts} drafts of the places "
                f"{state}"
            )
        if not 1 <= self.drafts <= RECENT_COLUMNS or self.block < 1:
            raise OpTypeError(f"align_drafts: {self.drafts} drafts, blocks of {self.block} tokens")
        wanted = (
            (table, (*places.shape, table.shape[-1]) if table.rank else ()),
            (accepted, places.shape),
            (new, places.shape),
            (recent, (*places.shape, RECENT_COLUMNS)),
            *((each, (*places.shape, self.nodes) if trees else places.shape) for each in more),
        )
        for kind, shape in wanted:
            if kind != TensorType(DType.I32, shape):
                raise OpTypeError(f"align_drafts: {kind} does not fit the places {state}")
        kept = TensorType(DType.I32, (self.packed,)) if packs else token_ids
        if not fits_places(kept, places, self.rows - 1):
            raise OpTypeError(f"align_drafts: {kept} has no room for all rows of {token_ids}")
        return token_ids, token_ids, token_ids, places, kept, token_ids, recent

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Align all places at once."""
        token_ids, table, state, accepted, new, recent, *more = operands
        path = more if self.nodes else ()
        count, rows = len(state), self.rows
        tokens = token_ids.reshape(count, rows)
        if path:
            tokens = np.take_along_axis(tokens, np.maximum(path[0], 0), axis=1)
        length, runs = state[:, State.LENGTH, None], state[:, State.FINISHED, None] == Finish.RUNS
        # Tokens from position LENGTH - 8 to LENGTH + drafts, and the new one behind the accepted.
        known = np.concatenate([recent[:, ::-1], tokens], axis=1)
        known = np.concatenate([known, new[:, None]], axis=1)
        behind = RECENT_COLUMNS + accepted[:, None] + 1
        known[np.arange(count)[:, None], behind] = new[:, None]

        columns = np.arange(rows)
        places = length + accepted[:, None] - self.drafts + columns
        inside = (places >= 0) & (columns <= self.drafts)
        held = behind - self.drafts + np.minimum(columns, self.drafts)
        ids = np.where(inside, np.take_along_axis(known, held, axis=1), 0)
        places = np.where(inside, places, 0)
        slots = np.where(inside & runs, slots_of(table, places, self.block), -1)

        window = hidden_window(self.drafts)
        first = np.arange(count)[:, None] * window
        kept = np.where(runs, first + (length + columns) % window, -1)
        if path:
            which, depth = np.nonzero(path[0] >= 0)
            along, kept = kept, np.full_like(kept, -1)
            kept[which, path[0][which, depth]] = along[which, depth]
        if self.packed:
            each, (start,) = rows_of_places(state, self.drafts), more
            which, column = np.nonzero(columns < each[:, None])
            along, kept = kept, np.full(bind_size(self.packed, {}), -1)
            kept[start[which] + column] = along[which, column]
        newest = behind - 1 - np.arange(RECENT_COLUMNS)
        return (
            ids.reshape(-1),
            places.reshape(-1),
            slots.reshape(-1),
            np.arange(count) * rows + self.drafts,
            kept.reshape(-1),
            (first + places % window).reshape(-1),
            np.take_along_axis(known, newest, axis=1),
        )
