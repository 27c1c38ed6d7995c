"""The passes over the places on NumPy, where there is no compiler; slower, and what they mean."""

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.step_state import NO_DRAFT, Finish, State
from ascendfx.runtime.engine.device import GroupResult
from ascendfx.runtime.engine.metrics import add_group
from ascendfx.runtime.engine.place_arrays import PlaceArrays, Room, Taken

Ints = NDArray[np.int32]


class NumpyTurn:
    """A `HostTurn` of a fixed number of NumPy calls, whatever the batch."""

    def __init__(self, arrays: PlaceArrays) -> None:
        self._arrays = arrays
        self._each = arrays.drafts + 1
        self._starts = np.arange(arrays.places) * arrays.width + arrays.drafts

    def forget(self) -> None:
        """Forget nothing: there is nothing that it remembers."""

    def reserve(self, steps: int, ahead: int) -> Room | None:
        """Give every place the blocks for ``steps`` more; None: they are too few."""
        own = self._arrays
        bound = own.state[:, State.LENGTH] + (ahead + steps + 1) * self._each
        needed = -(-np.minimum(bound, own.ceiling) // own.block_tokens)
        wanted = np.where(own.live, np.maximum(needed - own.owned, 0), 0)
        if int(wanted.sum()) > own.pool.free:
            return None
        left = own.state[:, State.LIMIT] - own.state[:, State.GENERATED]
        taken = np.flatnonzero(own.live)
        return Room(
            self._grow(wanted),
            int(left.max(where=own.live, initial=0)) - ahead,
            int(taken[-1]) + 1 if taken.size else 0,
            int(own.state[:, State.LENGTH].max(where=own.live, initial=0)),
        )

    def _grow(self, wanted: Ints) -> Ints:
        own, (places,) = self._arrays, np.nonzero(wanted)
        counts = wanted[places]
        blocks = own.pool.take(int(counts.sum()))
        first = np.cumsum(counts) - counts
        start = places * own.table_blocks + own.owned[places]
        at = np.arange(blocks.size) + np.repeat(start - first, counts)
        own.table.reshape(-1)[at] = blocks
        own.owned[places] += counts
        return np.stack([at.astype(np.int32), blocks])

    def read(self, result: GroupResult, group: int) -> list[int]:
        """Take over what a group did; returns the places that ended."""
        own, places = self._arrays, result.places
        inside = own.live[:places] & (own.since[:places] <= group)
        emitted = result.kept.emitted[: result.steps, :places]
        counts = np.multiply(emitted[:, :, 0], inside, dtype=np.intp)
        self._store(emitted, counts)
        before = own.state[:places].copy()
        after = np.where(inside[:, None], result.kept.state[:places], before)
        own.state[:places] = after
        ends = inside & (after[:, State.FINISHED] != Finish.RUNS)
        ran = after[:, State.STEPS] - before[:, State.STEPS]
        asked = own.drafts - (emitted[:, :, 1:] == NO_DRAFT).sum(axis=2)
        add_group(own.sums, counts, asked, ran, ends)
        return np.flatnonzero(ends).tolist()

    def _store(self, emitted: Ints, counts: NDArray[np.intp]) -> None:
        """Append the tokens of all places and steps to their rows of ``tokens``."""
        if not len(counts):
            return
        own, places = self._arrays, counts.shape[1]
        targets = np.cumsum(counts, axis=0)
        targets -= counts
        targets += self._starts[:places] + own.state[:places, State.GENERATED]
        # Whole rows are written. What stands behind the tokens of a step is overwritten by those
        # of the next one, which stand further left in its row: columns go from right to left.
        tokens = own.tokens.reshape(-1)
        for column in range(self._each, 0, -1):
            tokens[targets] = emitted[:, :, column]
            targets -= 1

    def settle(self, place: int) -> None:
        """Write nothing: all tokens are in their rows."""

    def take(self) -> Taken:
        """Return the tokens that callers lack."""
        own = self._arrays
        stops = own.state[:, State.GENERATED]
        (places,) = np.nonzero(own.live & own.polled & (stops > own.delivered))
        counts = stops[places] - own.delivered[places]
        ends = np.cumsum(counts)
        columns = np.arange(int(counts.sum())) - np.repeat(ends - stops[places], counts)
        new = own.tokens[np.repeat(places, counts), columns]
        own.delivered[places] = stops[places]
        return Taken(own.ids[places], ends.astype(np.int32), new)
