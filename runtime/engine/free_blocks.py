"""Which cache blocks belong to nobody."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


class FreeBlocks:
    """Hands out cache blocks and takes them back; a block has one owner at a time.

    The block that came back last goes out first: it is the likeliest to lie in a cache of the chip.

    Attributes:
        stack: The first ``free`` of them belong to nobody; the last of these goes out first.
        capacity: How many there are.
        free: How many of them belong to nobody.
    """

    def __init__(self, blocks: int) -> None:
        self.stack = np.arange(blocks - 1, -1, -1, dtype=np.int32)
        self.capacity = blocks
        self.free = blocks

    def take(self, count: int) -> Ints:
        """Return ``count`` blocks; so many must be free."""
        if count > self.free:
            raise AssertionError(f"{count} blocks wanted, {self.free} are free")
        self.free -= count
        return self.stack[self.free : self.free + count][::-1].copy()

    def give_back(self, blocks: Ints) -> None:
        """Take back blocks whose owner is gone."""
        if blocks.size > self.capacity - self.free:
            raise AssertionError("more blocks come back than went out")
        self.stack[self.free : self.free + blocks.size] = blocks
        self.free += blocks.size
