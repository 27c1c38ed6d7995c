"""Encoding by a table over the leading bits of a float32, exact for every number.

A float32 with its low 16 bits folded into the lowest of the high ones ("was there anything?") is
one of 65,536 buckets: a single number or all numbers strictly between two. Where both ends of a
bucket have the same code, so has everything in it, since encoding is monotone. The few other
buckets hold a border of the format and are searched exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.kept_roundings import narrow_to_odd
from ascendfx.quant_passes.formats.format import Float64s, Floats

_CHUNK = 1 << 15
"""Numbers at a time: index and sources stay in the second-level cache."""
_LARGEST = np.finfo(np.float32).max
_BUCKETS = 1 << 16

Exact = Callable[[Float64s], NDArray[np.uint8]]
"""A slow encoder of float64 numbers, monotone, infinities and NaN included."""


@dataclass(frozen=True, slots=True, eq=False)
class BitLookup:
    """An encoder that agrees with ``exact`` on every float32 and float64.

    Attributes:
        exact: Says what is right.
        codes: ``[65536]``, the code of each bucket.
        doubtful: ``[65536]``, whether a bucket has several codes; None if none has.
    """

    exact: Exact
    codes: NDArray[np.uint8]
    doubtful: NDArray[np.bool_] | None

    def encode(self, values: NDArray[np.float32] | NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return the code of each number, of the same shape."""
        flat = np.ascontiguousarray(values).reshape(-1)
        result = np.empty(flat.size, np.uint8)
        for start in range(0, flat.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            result[part] = self._encode_chunk(flat[part])
        return result.reshape(values.shape)

    def _encode_chunk(self, chunk: Floats) -> NDArray[np.uint8]:
        index = _bucket_of(_narrowed(chunk))
        found = np.take(self.codes, index, mode="clip")
        if self.doubtful is not None:
            places = np.flatnonzero(np.take(self.doubtful, index, mode="clip"))
            found[places] = self.exact(chunk[places].astype(np.float64))
        return found


def bit_lookup(exact: Exact) -> BitLookup:
    """Return the lookup of an exact encoder."""
    first, last = _ends_of_buckets()
    codes = exact(first)
    doubtful = codes != exact(last)
    return BitLookup(exact, codes, doubtful if doubtful.any() else None)


def _narrowed(chunk: Floats) -> NDArray[np.float32]:
    if chunk.dtype == np.float32:
        return chunk.view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = narrow_to_odd(chunk.astype(np.float64, copy=False))
    beyond = np.isinf(narrow) & np.isfinite(chunk)
    if beyond.any():
        narrow[beyond] = np.copysign(_LARGEST, chunk[beyond])
    return narrow


def _bucket_of(values: NDArray[np.float32]) -> NDArray[np.intp]:
    bits = values.view(np.uint32)
    index = (bits >> np.uint32(16)).astype(np.intp)
    index |= (bits & np.uint32(0xFFFF)) != 0
    return index


def _ends_of_buckets() -> tuple[Float64s, Float64s]:
    """Return the smallest and the largest float64 of each bucket, in magnitude.

    Bucket ``2 k`` is the one number whose high bits are ``2 k`` and whose low bits are zero. Bucket
    ``2 k + 1`` is everything strictly between it and the next such number, odd high bits included.
    """
    even = (np.arange(0, _BUCKETS, 2, dtype=np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):  # some of the bits are signalling NaN
        begin = even.astype(np.float64)
    sign = np.copysign(1.0, begin)
    following = np.append(begin[1:], np.nan)
    is_finite = np.isfinite(begin)
    infinite = is_finite & ~np.isfinite(following)
    with np.errstate(invalid="ignore"):
        first = np.where(is_finite, np.nextafter(begin, sign * np.inf), np.copysign(np.nan, begin))
        last = np.where(is_finite, np.nextafter(following, 0.0), np.copysign(np.nan, begin))
    # Finite numbers beyond the largest float32 are narrowed to it, so the last bucket holds them.
    last[infinite] = sign[infinite] * np.finfo(np.float64).max
    first_of_all, last_of_all = np.repeat(begin, 2), np.repeat(begin, 2)
    first_of_all[1::2], last_of_all[1::2] = first, last
    return first_of_all, last_of_all
