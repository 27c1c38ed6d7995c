"""Which cache blocks belong to which request."""

from collections import deque

from ascendfx.ir.diagnostic import GraphError


class BlockPool:
    """Hands out cache blocks and takes them back; a block has one owner at a time."""

    def __init__(self, blocks: int) -> None:
        self._free = deque(range(blocks))
        self._capacity = blocks

    @property
    def free(self) -> int:
        """Blocks that nobody owns."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Return ``count`` blocks.

        Raises:
            GraphError: Fewer are free.
        """
        if count > len(self._free):
            raise GraphError(
                code="cache-full",
                reason=f"{count} cache blocks are needed, "
                f"{len(self._free)} of {self._capacity} are free",
                hint="run fewer requests at a time, or compile with a larger `cache_blocks`",
            )
        return [self._free.popleft() for _ in range(count)]

    def give_back(self, blocks: list[int]) -> None:
        """Return blocks that a finished request owned."""
        self._free.extend(blocks)
