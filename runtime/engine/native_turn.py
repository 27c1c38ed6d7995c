"""The passes over the places, compiled beside the plan runners."""

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.runtime.emulator.runner_tools import RunnerTools
from ascendfx.runtime.engine.device import GroupResult
from ascendfx.runtime.engine.place_arrays import PlaceArrays, Room, Taken

UNIT = "host_turn.cpp"
"""The file beside this one."""

_RECENT_GROUPS = 4
"""Fewer: tokens are moved in smaller parts; more: they lie further apart until they are."""
_LANES = 4  # of counters
_LINE = 16  # numbers of a cache line
_SIZES = (
    *("places", "drafts", "block_tokens", "table_blocks", "width"),
    *("recent_width", "recent_groups"),
)
_ARRAYS = (
    *("live", "polled", "since", "ids", "ceiling", "stack"),
    *("state", "owned", "table", "tokens", "delivered", "sums"),
    *("recent", "pending", "next", "spare", "lanes"),
    *("room", "grown_at", "grown", "ended", "taken_ids", "taken_ends", "taken_tokens"),
)
_NONE = np.zeros((2, 0), np.int32)


@functools.cache
def source_text() -> str:
    """Return the text of `UNIT`; read once: it may be replaced while engines are made."""
    return Path(__file__).with_name(UNIT).read_text(encoding="utf-8")


class _Places(ctypes.Structure):
    """``Places`` of host_turn.cpp."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in _SIZES),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
    ]


class NativeTurn:
    """A `HostTurn` of three native calls; where nobody joins, leaves or grows, of two."""

    def __init__(self, arrays: PlaceArrays, tools: RunnerTools) -> None:
        """Compile and bind.

        Raises:
            GraphError: The cache of compiled files cannot be written.
        """
        count = arrays.places
        self._pool = arrays.pool
        self._each = arrays.drafts + 1
        self._room = np.full(4, -1, np.int32)
        self._grown = np.zeros((2, arrays.pool.capacity), np.int32)
        self._ended = np.zeros(count, np.int32)
        self._ids = np.zeros(count, np.int64)
        self._ends = np.zeros(count, np.int32)
        self._tokens = np.zeros(arrays.tokens.size, np.int32)
        # A step writes all its columns. With an odd number of lines, rows do not compete for the
        # same lines of a cache.
        lines = -(-(_RECENT_GROUPS * arrays.group_steps + 1) * self._each // _LINE)
        recent = (lines | 1) * _LINE
        self._keep: dict[str, Any] = {
            **vars(arrays),
            "stack": arrays.pool.stack,
            "recent_width": recent,
            "recent_groups": _RECENT_GROUPS,
            "recent": np.zeros((count, recent), np.int32),
            "pending": np.zeros(count, np.int32),
            "next": np.zeros(1, np.int32),
            "spare": np.zeros(count, np.int32),
            "lanes": np.zeros((_LANES, arrays.drafts + 2), np.int32),
            "room": self._room,
            "ended": self._ended,
            "grown_at": self._grown[0],
            "grown": self._grown[1],
            "taken_ids": self._ids,
            "taken_ends": self._ends,
            "taken_tokens": self._tokens,
        }
        sizes = [self._keep[name] for name in _SIZES]
        addresses = [_address(self._keep[name]) for name in _ARRAYS]
        self._struct = _Places(*sizes, *addresses)
        self._all = ctypes.byref(self._struct)
        library = tools.build(UNIT, source_text())
        # These hold the lock of Python: they are shorter than giving it away.
        number, pointer = ctypes.c_int32, ctypes.c_void_p
        reserve = ctypes.PYFUNCTYPE(number, pointer, number, number)
        read = ctypes.PYFUNCTYPE(number, pointer, pointer, pointer, number, ctypes.c_int64)
        take = ctypes.PYFUNCTYPE(number, pointer)
        settle = ctypes.PYFUNCTYPE(None, pointer, number)
        self._reserve = reserve(("ascendfx_reserve", library))
        self._read = read(("ascendfx_read", library))
        self._take = take(("ascendfx_take", library))
        self._settle = settle(("ascendfx_settle", library))

    def forget(self) -> None:
        """Look at all places again before the next group."""
        self._room[0] = -1

    def reserve(self, steps: int, ahead: int) -> Room | None:
        """Give every place the blocks for ``steps`` more; None: they are too few."""
        tokens = (steps + ahead + 1) * self._each
        grown = _NONE
        spare, left, used, longest = self._room.tolist()
        if tokens > spare:
            count = self._reserve(self._all, tokens, self._pool.free)
            if count < 0:
                return None
            if count:
                self._pool.free -= count
                grown = self._grown[:, :count].copy()
            _, left, used, longest = self._room.tolist()
        return Room(grown, left - ahead, used, longest)

    def read(self, result: GroupResult, group: int) -> list[int]:
        """Take over what a group did; returns the places that ended."""
        emitted, state = result.kept.addresses
        count = self._read(self._all, emitted, state, result.steps, group)
        return self._ended[:count].tolist() if count else []

    def settle(self, place: int) -> None:
        """Write the tokens of a place to its row of ``tokens``."""
        self._settle(self._all, place)

    def take(self) -> Taken:
        """Return the tokens that callers lack."""
        count = self._take(self._all)
        end = self._ends[count - 1] if count else 0
        return Taken(self._ids[:count].copy(), self._ends[:count].copy(), self._tokens[:end].copy())


def _address(array: NDArray[Any]) -> int:
    if not array.flags.c_contiguous:
        raise AssertionError("the arrays of the places are contiguous")
    return array.ctypes.data
