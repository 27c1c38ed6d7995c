"""What the host keeps of every place of the batch, as arrays; and what it does with all at once."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.step_state import STATE_COLUMNS
from ascendfx.runtime.engine.device import GroupResult
from ascendfx.runtime.engine.free_blocks import FreeBlocks
from ascendfx.runtime.engine.metrics import no_sums

Ints = NDArray[np.int32]


class PlaceArrays:
    """Arrays over the places of a device, and what passes over them leave.

    Attributes:
        places: How many there are.
        drafts: Draft tokens of a step.
        block_tokens: Tokens of a block.
        table_blocks: Blocks that a row of ``table`` holds.
        group_steps: Most steps of a group.
        width: Tokens that a row of ``tokens`` holds, with those that a step may write behind them.
        pool: Blocks that belong to nobody.
        live: Whether the request there goes on, as far as the host has read.
        since: The first group in whose steps the request is.
        ids: Its id.
        state: Rows of ``state`` as they were read last.
        ceiling: Most tokens that the request can have in the cache.
        owned: How many blocks it has.
        table: Blocks in order.
        tokens: New tokens; ``state[:, GENERATED]`` says how many. `HostTurn.settle` a place before
            its row is read or written.
        delivered: How many of them the caller has.
        polled: Whether `Engine.poll` delivers the tokens.
        sums: See `Tally`.
    """

    def __init__(self, device: Capacities, block_tokens: int) -> None:
        count = device.requests
        self.places, self.drafts, self.block_tokens = count, device.drafts, block_tokens
        self.table_blocks = device.table_blocks
        self.group_steps = device.steps
        self.width = device.context + device.drafts + 1
        self.pool = FreeBlocks(device.blocks)
        self.live = np.zeros(count, np.bool_)
        self.since = np.zeros(count, np.int64)
        self.ids = np.zeros(count, np.int64)
        self.state = np.zeros((count, STATE_COLUMNS), np.int32)
        self.ceiling = np.zeros(count, np.int32)
        self.owned = np.zeros(count, np.int32)
        self.table = np.zeros((count, device.table_blocks), np.int32)
        self.tokens = np.zeros((count, self.width), np.int32)
        self.delivered = np.zeros(count, np.int32)
        self.polled = np.zeros(count, np.bool_)
        self.sums = no_sums(device.drafts)


class Room(NamedTuple):
    """What there is to run when the blocks of a group are reserved.

    Attributes:
        grown: ``[2, blocks]``: elements of ``table``, counted over all rows, and their new blocks.
        left: Most tokens that a request may still get.
        used: Places up to the last that is live.
        longest: Most cached tokens of a request.
    """

    grown: Ints
    left: int
    used: int
    longest: int


class Taken(NamedTuple):
    """Tokens that callers lacked.

    Attributes:
        ids: i64, of the requests.
        ends: i32, where the tokens of each end; they begin where those before it end.
        tokens: i32, of all of them.
    """

    ids: NDArray[np.int64]
    ends: Ints
    tokens: Ints


class HostTurn(Protocol):
    """What the host does between two groups; all of it is one pass over the places."""

    def forget(self) -> None:
        """Hear that ``live`` has changed, or a row of a place that is live."""
        ...

    def reserve(self, steps: int, ahead: int) -> Room | None:
        """Give every place the blocks for ``steps`` more; None: nothing changed, they are too few.

        A step reads one more token than are cached and has its drafts behind it; what it leaves
        for the next one lies up to ``drafts + 1`` further.

        Args:
            steps: Of the next group.
            ahead: Steps that were handed over and not yet read; all places are in them.
        """
        ...

    def read(self, result: GroupResult, group: int) -> list[int]:
        """Take over what a group did to those who were in it; returns the places that ended."""
        ...

    def settle(self, place: int) -> None:
        """Write the tokens of a place to its row of ``tokens``, if they are elsewhere.

        Called before it is live no more: only those of places that are live are kept.
        """
        ...

    def take(self) -> Taken:
        """Return the tokens that callers lack, and note that they have them."""
        ...
