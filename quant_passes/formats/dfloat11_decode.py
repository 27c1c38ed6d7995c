"""Decoding of DFloat11 as its kernels do it: all threads at once, a code at a time."""

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.dfloat11_tables import FIRST_POINTER

_BITS_PER_THREAD = 64
_THREADS = 1 << 16
"""Threads at a time."""


def decode_exponents(
    encoded: NDArray[np.uint8], gaps: NDArray[np.int64], luts: NDArray[np.uint8], count: int
) -> NDArray[np.uint8]:
    """Return the exponents of codes side by side.

    Args:
        encoded: The bytes of the codes.
        gaps: Per eight bytes, the bit at which the first code starts.
        luts: Decoding tables, and lengths in the last row.
        count: Exponents to return; what is decoded behind them is the end symbol.

    Raises:
        GraphError: `damaged-stream`: fewer exponents, or a code that no table has.
    """
    threads = -(-encoded.size // 8)
    if gaps.size < threads or luts.ndim != 2 or luts.shape[1:] != (256,):
        reason = f"dfloat11: {encoded.size} bytes of code have {gaps.size} gaps"
        raise GraphError("damaged-stream", reason, hint="read the file again")
    words = np.zeros(2 * threads + 2, np.uint32)
    words.view(np.uint8)[: encoded.size] = encoded
    words = words.byteswap().astype(np.uint64)  # the first byte is the highest
    parts = [
        _decode_threads(words, np.arange(first, min(threads, first + _THREADS)), gaps, luts)
        for first in range(0, threads, _THREADS)
    ]
    exponents = np.concatenate([np.zeros(0, np.uint8), *parts])[:count]
    if exponents.size < count:
        reason = f"dfloat11: the codes end after {exponents.size} of {count} weights"
        raise GraphError("damaged-stream", reason, hint="read the file again")
    return exponents


def _decode_threads(
    words: NDArray[np.uint64],
    threads: NDArray[np.int64],
    gaps: NDArray[np.int64],
    luts: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """Return what some threads decode, one after the other."""
    place = gaps[threads].copy()  # in the 64 bits of each thread
    alive = np.flatnonzero(place < _BITS_PER_THREAD)
    rounds: list[tuple[NDArray[np.int64], NDArray[np.uint8]]] = []
    while alive.size:
        symbols = _symbols(words, threads[alive] * _BITS_PER_THREAD + place[alive], luts)
        lengths = luts[-1][symbols]
        known = lengths > 0  # behind the last code, anything may stand
        alive, symbols, lengths = alive[known], symbols[known], lengths[known]
        rounds.append((alive, symbols))
        place[alive] += lengths
        alive = alive[place[alive] < _BITS_PER_THREAD]
    _require_chain(place, threads, gaps, words.size // 2 - 2)
    if not rounds:
        return np.zeros(0, np.uint8)
    grid = np.zeros((threads.size, len(rounds)), np.uint8)
    taken = np.zeros(grid.shape, np.bool_)
    for column, (which, symbols) in enumerate(rounds):
        grid[which, column] = symbols
        taken[which, column] = True
    return grid[taken]


def _require_chain(
    place: NDArray[np.int64], threads: NDArray[np.int64], gaps: NDArray[np.int64], last: int
) -> None:
    """Refuse threads that do not end where the next one starts.

    The last thread, and where the one before it ends, are free: behind the last code is no code.
    """
    inner = threads < last - 1
    if np.any(place[inner] - _BITS_PER_THREAD != gaps[threads[inner] + 1]):
        reason = "dfloat11: the codes of a thread do not end where those of the next one start"
        raise GraphError("damaged-stream", reason, hint="read the file again")


def _symbols(
    words: NDArray[np.uint64], bit: NDArray[np.int64], luts: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return the symbol whose code starts at each bit: up to four tables, a byte each."""
    word, shift = bit >> 5, (bit & 31).astype(np.uint64)
    pair = (words[word] << np.uint64(32)) | words[word + 1]
    window = ((pair << shift) >> np.uint64(32)).astype(np.uint32)
    found = luts[0][window >> np.uint32(24)]
    for level in (16, 8, 0):
        pointers = np.flatnonzero(found >= FIRST_POINTER)
        if not pointers.size:
            break
        table = 256 - found[pointers].astype(np.int64)
        if table.max() >= len(luts) - 1:
            reason = f"dfloat11: a code leads to table {table.max()} of {len(luts) - 1}"
            raise GraphError("damaged-stream", reason, hint="read the file again")
        found[pointers] = luts[table, (window[pointers] >> np.uint32(level)) & np.uint32(0xFF)]
    return found
