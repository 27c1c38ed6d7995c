"""The places of the decode batch: who sits there, with which blocks and tokens.

Everything that a group of steps touches is an array over places, so that its cost is that of a few
NumPy calls, whatever the batch. Loops over requests are for those that join or leave.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import STATE_COLUMNS, Finish, State
from ascendfx.runtime.engine.device import Device, GroupResult
from ascendfx.runtime.engine.free_blocks import FreeBlocks
from ascendfx.runtime.engine.prefill import Joined, JoiningRequest
from ascendfx.runtime.engine.transfer_record import TransferRecord

Ints = NDArray[np.int32]


@dataclass(slots=True, eq=False)
class Entry:
    """A request while the engine knows it.

    Attributes:
        id: What `Engine.start` returned; older requests have smaller ones.
        name: How errors call it.
        prompt: Token ids.
        limit: Most new tokens.
        options: Row of ``options``.
        state: Row of ``state`` when it joins, or as it was when it left.
        stop_ids: Row of ``stop_ids``.
        adaptive: Whether the engine chooses the number of its drafts.
        polled: Whether `Engine.poll` delivers its tokens.
        place: Where it runs; -1: nowhere.
        tokens: New tokens, while it has no place.
        record: What its prompt gave elsewhere, as long as it is needed.
        delivered: How many of them the caller has.
        finish_reason: Empty while it may go on.
        error: Why it ended, if by an error.
    """

    id: int
    name: str
    prompt: Ints
    limit: int
    options: NDArray[np.float32]
    state: Ints
    stop_ids: Ints
    adaptive: bool
    polled: bool
    place: int = -1
    tokens: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    record: TransferRecord | None = None
    delivered: int = 0
    finish_reason: str = ""
    error: GraphError | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What the host learned of a group.

    Attributes:
        ended: Places whose request ended.
        why: A `Finish` for each of them.
        counts: ``[steps, places]``, emitted tokens.
        ran: ``[places]``, steps in which the place ran.
        ends: ``[places]``, whether it is one of ``ended``.
        drafted: ``[places]``, drafts of its first step.
        wanted: ``[places]``, drafts of the others.
    """

    ended: list[int]
    why: list[int]
    counts: NDArray[np.intp]
    ran: Ints
    ends: NDArray[np.bool_]
    drafted: Ints
    wanted: Ints


class Places:
    """Arrays over the places of a device.

    Attributes:
        entries: The request of each place; None: free.
        live: Whether the request there goes on, as far as the host has read.
        state: Rows of ``state`` as they were read last.
        ahead: Steps that were handed over and not yet read.
        table: Blocks in order; ``owned`` says how many.
        tokens: New tokens; ``state[:, GENERATED]`` says how many.
        delivered: How many of them the caller has.
        adaptive: Whether the engine chooses the number of drafts.
        polled: Whether `Engine.poll` delivers the tokens.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        count, context = device.decode.requests, device.decode.context
        self.pool = FreeBlocks(device.decode.blocks)
        self.entries: list[Entry | None] = [None] * count
        self.live = np.zeros(count, np.bool_)
        self.ids = np.zeros(count, np.int64)
        self.state = np.zeros((count, STATE_COLUMNS), np.int32)
        self.ahead = np.zeros(count, np.int32)
        self.ceiling = np.zeros(count, np.int32)
        self.owned = np.zeros(count, np.int32)
        self.table = np.zeros((count, device.decode.table_blocks), np.int32)
        width = context + device.drafts + 1
        self.tokens = np.zeros((count, width), np.int32)
        self.delivered = np.zeros(count, np.int32)
        self.adaptive = np.zeros(count, np.bool_)
        self.polled = np.zeros(count, np.bool_)
        self._each = device.drafts + 1
        self._starts = np.arange(count) * width + device.drafts

    @property
    def used(self) -> int:
        """Places up to the last that has a request."""
        taken = np.flatnonzero(self.live)
        return int(taken[-1]) + 1 if taken.size else 0

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks hold so many tokens."""
        return -(-tokens // self._device.block_tokens)

    def ceiling_of(self, entry: Entry) -> int:
        """Return the most tokens that a request can have in the cache.

        The last new token is never read again; drafts may stand behind the one before it.
        """
        return entry.prompt.size + entry.limit - 1 + self._device.drafts

    def wanted_blocks(self, steps: int) -> Ints:
        """Return how many more blocks each place needs before it may run ``steps`` more.

        A step reads one more token than are cached and has its drafts behind it; what it leaves
        for the next one lies up to ``drafts + 1`` further.
        """
        each = self._each
        bound = self.state[:, State.LENGTH] + (self.ahead + (steps + 1)) * each
        bound = np.minimum(bound, self.ceiling)
        needed = -(-bound // self._device.block_tokens)
        return np.where(self.live, np.maximum(needed - self.owned, 0), 0)

    def grow(self, wanted: Ints) -> Ints:
        """Give places the blocks they want; returns those places. There must be enough."""
        places = np.flatnonzero(wanted)
        if places.size:
            counts = wanted[places]
            blocks = self.pool.take(int(counts.sum()))
            rows = np.repeat(places, counts)
            first = np.cumsum(counts) - counts
            columns = np.arange(rows.size) - np.repeat(first - self.owned[places], counts)
            self.table[rows, columns] = blocks
            self.owned[places] += counts
        return places.astype(np.int32)

    def headroom(self) -> int:
        """Return the places that may want another block some day: one each is kept free for them.

        Without it, a request would be let in with the last blocks and put out again, its prompt
        read for nothing, as soon as an older one grows.
        """
        most = -(-self.ceiling // self._device.block_tokens)
        return int(np.count_nonzero(self.live & (self.owned < most)))

    def join(self, entry: Entry, steps: int) -> JoiningRequest | None:
        """Give a request a place and blocks; None if there are not enough of either."""
        free = next((p for p, each in enumerate(self.entries) if each is None), None)
        if free is None:
            return None
        record = entry.record
        if record is not None:  # nothing but its prompt is known, also when it runs again
            entry.tokens, entry.state = entry.tokens[:0], record.state
        known = np.concatenate([entry.prompt, entry.tokens])
        ceiling = self.ceiling_of(entry)
        blocks = self.blocks_for(min(known.size + (steps + 1) * self._each, ceiling))
        kept = self.headroom()
        if blocks + kept > self.pool.free and (kept or blocks > self.pool.free):
            return None
        taken = self.pool.take(blocks)
        self.entries[free], entry.place = entry, free
        self.live[free] = True
        self.ids[free] = entry.id
        self.state[free] = entry.state
        self.state[free, State.LENGTH] = known.size
        self.ahead[free] = 0
        self.ceiling[free] = ceiling
        self.owned[free] = blocks
        self.table[free, :blocks] = taken
        self.tokens[free, : entry.tokens.size] = entry.tokens
        self.delivered[free] = entry.delivered
        self.adaptive[free] = entry.adaptive
        self.polled[free] = entry.polled
        if "prefill" in self._device.plans:
            entry.record = None
        return JoiningRequest(
            free, known, taken, entry.options, entry.state, entry.stop_ids, record
        )

    def lend(self, entry: Entry) -> JoiningRequest:
        """Return a free place and blocks for a prompt that stays only until it has been read.

        The place stays free; the caller gives the blocks back.

        Raises:
            GraphError: There is no place, or are not enough blocks.
        """
        free = next((p for p, each in enumerate(self.entries) if each is None), None)
        count = self.blocks_for(entry.prompt.size)
        if free is None or count > self.pool.free:
            raise GraphError(
                "engine-busy",
                f"{entry.name}: a place and {count} cache blocks are needed; "
                f"{self.pool.free} blocks{'' if free is not None else ' and no place'} are free",
                hint="call `step` until a request ends, or prefill in an engine of its own",
            )
        parts = (entry.options, entry.state, entry.stop_ids)
        return JoiningRequest(free, entry.prompt, self.pool.take(count), *parts)

    def retire(self, place: int) -> Entry:
        """Take the tokens of a request that goes on no more; place and blocks stay its own."""
        entry = self.entries[place]
        assert entry is not None, place  # noqa: S101
        entry.tokens = self.tokens[place, : self.state[place, State.GENERATED]].copy()
        entry.state = self.state[place].copy()
        entry.delivered = int(self.delivered[place])
        self.live[place] = False
        return entry

    def take_tokens(self, places: NDArray[np.intp]) -> Iterator[tuple[int, list[int]]]:
        """Yield the id at each place and the tokens that its caller lacks, and note that he has."""
        starts, stops = self.delivered[places], self.state[places, State.GENERATED]
        self.delivered[places] = stops
        most = int((stops - starts).max(initial=0))
        # A rectangle of a few columns becomes Python numbers in one call, not row by row.
        columns = starts[:, None] + np.arange(most)
        rows = self.tokens[places[:, None], np.minimum(columns, self.tokens.shape[1] - 1)]
        counts = (stops - starts).tolist()
        for request, row, count in zip(
            self.ids[places].tolist(), rows.tolist(), counts, strict=True
        ):
            yield request, row[:count]

    def release(self, place: int) -> None:
        """Free the place and the blocks of a request that no group runs any more."""
        entry = self.entries[place]
        assert entry is not None, place  # noqa: S101
        self.pool.give_back(self.table[place, : self.owned[place]])
        entry.place = -1
        self.entries[place] = None
        self.owned[place] = 0
        self.ahead[place] = 0

    def read(self, result: GroupResult, ran: NDArray[np.bool_]) -> Reading:
        """Take over what a group did.

        Args:
            result: Of the group.
            ran: The places that were live when it was handed over.
        """
        places = len(result.state)
        live = ran[:places] & self.live[:places]
        for each in result.joined:
            if live[each.place]:
                self._read_first(each)
        counts = np.multiply(result.emitted[:, :, 0], live, dtype=np.intp)
        self._store(result.emitted, counts)
        before = self.state[:places].copy()
        after = result.state if live.all() else np.where(live[:, None], result.state, before)
        for each in result.joined:
            if live[each.place] and each.finish != Finish.RUNS:
                after[each.place] = before[each.place]
                after[each.place, State.FINISHED] = each.finish
        self.state[:places] = after
        ends = live & (after[:, State.FINISHED] != Finish.RUNS)
        ended = np.flatnonzero(ends)
        return Reading(
            ended.tolist(),
            after[ended, State.FINISHED].tolist(),
            counts,
            after[:, State.STEPS] - before[:, State.STEPS],
            ends,
            before[:, State.DRAFTED],
            after[:, State.DRAFTS],
        )

    def _read_first(self, joined: Joined) -> None:
        state = self.state[joined.place]
        if joined.token >= 0:
            self.tokens[joined.place, state[State.GENERATED]] = joined.token
            state[State.GENERATED] += 1
        state[State.DRAFTED] = min(int(state[State.DRAFTS]), len(joined.drafts))

    def _store(self, emitted: Ints, counts: NDArray[np.intp]) -> None:
        """Append the tokens of all places and steps to their rows of ``tokens``."""
        if not len(counts):
            return
        places = counts.shape[1]
        targets = np.cumsum(counts, axis=0)
        targets -= counts
        targets += self._starts[:places] + self.state[:places, State.GENERATED]
        # Whole rows are written. What stands behind the tokens of a step is overwritten by those
        # of the next one, which stand further left in its row: columns go from right to left.
        tokens = self.tokens.reshape(-1)
        for column in range(self._each, 0, -1):
            tokens[targets] = emitted[:, :, column]
            targets -= 1
