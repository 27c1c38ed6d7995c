"""The places of the decode batch: who sits there, with which blocks and tokens.

Everything that a group of steps touches is an array over places, and done in a few passes over them
(`HostTurn`). Loops over requests are for those that join or leave.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import Finish, State
from ascendfx.runtime.engine.device import Device, GroupResult
from ascendfx.runtime.engine.native_turn import NativeTurn
from ascendfx.runtime.engine.numpy_turn import NumpyTurn
from ascendfx.runtime.engine.place_arrays import PlaceArrays
from ascendfx.runtime.engine.prefill import Joined, JoiningRequest
from ascendfx.runtime.engine.transfer_record import TransferRecord
from ascendfx.runtime.executor.step import HasTools

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
    polled: bool
    place: int = -1
    tokens: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    record: TransferRecord | None = None
    delivered: int = 0
    finish_reason: str = ""
    error: GraphError | None = None


def raise_first(entries: Iterable[Entry]) -> None:
    """Raise the error of the first request that has one."""
    for entry in entries:
        if entry.error is not None:
            raise entry.error


class Places(PlaceArrays):
    """The arrays, and who joins and leaves.

    Attributes:
        entries: The request of each place; None: free.
        turn: Passes over all places.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device.decode, device.block_tokens)
        self._device = device
        self.entries: list[Entry | None] = [None] * self.places
        executor = device.executor
        native = isinstance(executor, HasTools)
        self.turn = NativeTurn(self, executor.tools) if native else NumpyTurn(self)

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks hold so many tokens."""
        return -(-tokens // self._device.block_tokens)

    def ceiling_of(self, entry: Entry) -> int:
        """Return the most tokens that a request can have in the cache.

        The last new token is never read again; drafts may stand behind the one before it.
        """
        return entry.prompt.size + entry.limit - 1 + self._device.drafts

    def headroom(self) -> int:
        """Return the places that may want another block some day: one each is kept free for them.

        Without it, a request would be let in with the last blocks and put out again, its prompt
        read for nothing, as soon as an older one grows.
        """
        most = -(-self.ceiling // self._device.block_tokens)
        return int(np.count_nonzero(self.live & (self.owned < most)))

    def join(self, entry: Entry, steps: int, group: int) -> JoiningRequest | None:
        """Give a request a place and blocks; None if there are not enough of either.

        Args:
            entry: The request.
            steps: Of the next group.
            group: Its number.
        """
        free = next((p for p, each in enumerate(self.entries) if each is None), None)
        if free is None:
            return None
        record = entry.record
        if record is not None:  # nothing but its prompt is known, also when it runs again
            entry.tokens, entry.state = entry.tokens[:0], record.state
        known = np.concatenate([entry.prompt, entry.tokens])
        ceiling = self.ceiling_of(entry)
        blocks = self.blocks_for(min(known.size + (steps + 1) * (self.drafts + 1), ceiling))
        kept = self.headroom()
        if blocks + kept > self.pool.free and (kept or blocks > self.pool.free):
            return None
        taken = self.pool.take(blocks)
        self.entries[free], entry.place = entry, free
        self.live[free] = True
        self.ids[free] = entry.id
        self.state[free] = entry.state
        self.state[free, State.LENGTH] = known.size
        self.since[free] = group
        self.turn.forget()
        self.ceiling[free] = ceiling
        self.owned[free] = blocks
        self.table[free, :blocks] = taken
        self.tokens[free, : entry.tokens.size] = entry.tokens
        self.delivered[free] = entry.delivered
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
        self.turn.settle(place)
        entry.tokens = self.tokens[place, : self.state[place, State.GENERATED]].copy()
        entry.state = self.state[place].copy()
        entry.delivered = int(self.delivered[place])
        self.live[place] = False
        self.turn.forget()
        return entry

    def tokens_for(self, entry: Entry) -> tuple[int, ...]:
        """Return the tokens that the caller of a request lacks, and note that he has them."""
        self.turn.settle(entry.place)
        start, stop = int(self.delivered[entry.place]), self.generated(entry)
        self.delivered[entry.place] = stop
        return tuple(self.tokens[entry.place, start:stop].tolist())

    def generated(self, entry: Entry) -> int:
        """Return the new tokens of a request so far."""
        return int(self.state[entry.place, State.GENERATED])

    def release(self, place: int) -> None:
        """Free the place and the blocks of a request that no group runs any more."""
        entry = self.entries[place]
        assert entry is not None, place  # noqa: S101
        self.pool.give_back(self.table[place, : self.owned[place]])
        entry.place = -1
        self.entries[place] = None
        self.owned[place] = 0

    def read(self, result: GroupResult, group: int) -> list[int]:
        """Take over what a group did; returns the places that ended."""
        if not result.joined:
            return self.turn.read(result, group)
        ended: list[int] = []
        for each in result.joined:
            if self.live[each.place] and self.since[each.place] == group:
                self._read_first(each)
                if each.finish != Finish.RUNS:  # after its prompt: it is in no step
                    self.state[each.place, State.FINISHED] = each.finish
                    self.since[each.place] = group + 1
                    ended.append(each.place)
        return ended + self.turn.read(result, group)

    def _read_first(self, joined: Joined) -> None:
        state = self.state[joined.place]
        if joined.token >= 0:
            self.tokens[joined.place, state[State.GENERATED]] = joined.token
            state[State.GENERATED] += 1
        drafts = self._device.tree.spread(joined.drafts)
        state[State.DRAFTED] = min(int(state[State.DRAFTS]), len(drafts))
