"""Random numbers that depend on nothing but a seed, a place and a purpose."""

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

BITS = 24
"""Bits of a uniform number: those that a float32 below 1 holds exactly."""

Words = NDArray[np.uint64]


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> Words:
    """Return the four words of Philox4x32-10, ``[4, ...]``, each below 2^32.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11,
    section 3.3 and table 2.

    Args:
        counter: Four words, each below 2^32.
        key: Two words, each below 2^32.
    """
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) & _WORD for word in counter)
    k0, k1 = (np.asarray(word, np.uint64) & _WORD for word in key)
    for _ in range(_ROUNDS):
        p0, p1 = np.uint64(_MULTIPLIERS[0]) * c0, np.uint64(_MULTIPLIERS[1]) * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _WORD, (p0 >> _HALF) ^ c3 ^ k1, p0 & _WORD
        k0, k1 = (k0 + np.uint64(_KEY_STEPS[0])) & _WORD, (k1 + np.uint64(_KEY_STEPS[1])) & _WORD
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3))


def uniform(
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    index: NDArray[np.int64],
    stream: int,
    step: NDArray[np.int64] | int = 0,
) -> NDArray[np.float64]:
    """Return numbers in [0, 1), multiples of 2^-24.

    Args:
        low: Lower word of the seed of each number, an i32 taken as bits.
        high: Its upper word.
        index: Position of the token that is drawn: what other requests do, and which drafts were
            right, has no influence.
        stream: A `Stream`: what the number is for.
        step: Tells the numbers of one position apart that several steps draw: those that decide
            about drafts, which are dropped and drafted again.
    """
    zero = np.zeros_like(np.asarray(index, np.uint64))
    counter = (_bits(index), zero + np.uint64(stream), zero + _bits(step), zero)
    word = philox(counter, (_bits(low), _bits(high)))[0]
    return (word >> np.uint64(32 - BITS)).astype(np.float64) * 2.0**-BITS


def _bits(values: NDArray[np.int64] | int) -> Words:
    return np.asarray(values, np.int64).astype(np.uint64) & _WORD
