"""Prefix codes of shortest total length, as the Python package dahuffman builds them.

Any Huffman code would do; this one gives the bytes that DFloat11 files hold.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

END = -1
"""The end symbol: comes once, and before every other symbol where counts are equal."""


@dataclass(frozen=True, slots=True)
class Code:
    """The lowest ``length`` bits of ``bits``, highest first."""

    length: int
    bits: int


def huffman_codes(counts: Mapping[int, int]) -> dict[int, Code]:
    """Return a code for each symbol and for `END`, which is counted once.

    The two lightest trees are joined until one is left; of equal weights the tree comes first whose
    symbols, with their codes so far, are the smaller list. The first one of a pair is branch 0.

    Args:
        counts: How often each symbol, a whole number from 0 on, occurs; at least one symbol.
    """
    heap: list[tuple[int, list[tuple[int, tuple[int, int]]]]] = [
        (count, [(symbol, (0, 0))]) for symbol, count in (*counts.items(), (END, 1))
    ]
    heapq.heapify(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        left = [(symbol, (length + 1, bits)) for symbol, (length, bits) in first[1]]
        right = [(symbol, (length + 1, bits | 1 << length)) for symbol, (length, bits) in second[1]]
        heapq.heappush(heap, (first[0] + second[0], left + right))
    return {symbol: Code(*code) for symbol, code in heap[0][1]}
