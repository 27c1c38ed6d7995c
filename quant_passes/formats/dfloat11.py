"""DFloat11: bfloat16 weights without loss in about eleven bits (Zhang et al., arXiv 2504.11651).

A codec of storage, not a `Format`: exponents become a Huffman code, signs and mantissas stay bytes.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.dfloat11_decode import decode_exponents
from ascendfx.quant_passes.formats.dfloat11_tables import (
    FIRST_POINTER,
    CodeTables,
    code_tables,
)
from ascendfx.quant_passes.formats.huffman import Code

_BYTES_PER_THREAD = 8
_THREADS_PER_BLOCK = 512
_BITS_PER_THREAD = 8 * _BYTES_PER_THREAD
_GAP_BITS = 5
_CHUNK = 1 << 17
"""Weights at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class DFloat11Streams:
    """What a file holds of a tensor.

    ================  ======================  ===================================================
    stream            shape                   content
    ================  ======================  ===================================================
    encoded_exponent  u8 ``[bytes]``          codes side by side, highest bit first
    sign_mantissa     u8 ``[count]``          sign in bit 7, seven bits of mantissa
    output_positions  u32 ``[blocks + 1]``    weights before each block; the last one is the count
    gaps              u8 ``[blocks * 320]``   five bits per thread: where in its bytes its first
                                              code starts
    luts              u8 ``[tables + 1,256]`` decoding tables by a byte of code; 256 - i leads to
                                              table i; the last row holds the lengths of codes
    shape             tuple                   shape of the tensor
    ================  ======================  ===================================================

    A thread decodes the codes that start in its 8 bytes; a block has 512 threads.
    """

    encoded_exponent: NDArray[np.uint8]
    sign_mantissa: NDArray[np.uint8]
    output_positions: NDArray[np.uint32]
    gaps: NDArray[np.uint8]
    luts: NDArray[np.uint8]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of all streams."""
        streams = (self.encoded_exponent, self.sign_mantissa, self.output_positions, self.gaps)
        return sum(each.nbytes for each in streams) + self.luts.nbytes


@dataclass(frozen=True, slots=True)
class DFloat11:
    """The codec, with the layout and, up to ties of rare symbols, the bytes of dfloat11 0.5.0."""

    name = "dfloat11"

    def encode(self, bits: NDArray[np.int16] | NDArray[np.uint16]) -> DFloat11Streams:
        """Return the streams of bfloat16 numbers given by their bits.

        Zeros of either sign, subnormals and mantissas of any kind are kept bit by bit.

        Raises:
            GraphError: `exponent-not-storable`: a magnitude is 2^113 or more, infinite or NaN,
                which the tables of this format cannot tell from pointers; `not-numbers`: not 16-bit
                integers.
        """
        raw = _raw_bits(bits)
        exponent = ((raw >> np.uint16(7)) & np.uint16(0xFF)).astype(np.uint8)
        sign_mantissa = ((raw >> np.uint16(8)) & 0x80 | raw & 0x7F).astype(np.uint8)
        counts = np.bincount(exponent, minlength=256)
        _require_storable(counts)
        present = {int(symbol): int(counts[symbol]) for symbol in np.flatnonzero(counts)}
        tables = code_tables(present)
        encoded, gaps, positions = _encoded(exponent, tables, _total_bits(counts, tables))
        return DFloat11Streams(
            encoded, sign_mantissa, positions, gaps, tables.luts, tuple(np.shape(bits))
        )

    def decode(self, streams: DFloat11Streams) -> NDArray[np.uint16]:
        """Return the bits of the numbers, of their shape.

        Raises:
            GraphError: `damaged-stream`: the streams contradict each other.
        """
        count = math.prod(streams.shape)
        exponent = decode_exponents(
            streams.encoded_exponent,
            _unpacked_gaps(streams.gaps),
            streams.luts,
            count,
        )
        mantissas, last = streams.sign_mantissa.size, streams.output_positions[-1:].tolist()
        if mantissas != count or last != [count]:
            reason = f"dfloat11: {count} weights have {mantissas} mantissas and end at {last}"
            raise GraphError("damaged-stream", reason, hint="read the file again")
        low = streams.sign_mantissa.astype(np.uint16)
        sign = (low & np.uint16(0x80)) << np.uint16(8)
        bits = sign | exponent.astype(np.uint16) << np.uint16(7) | low & np.uint16(0x7F)
        return bits.reshape(streams.shape)


def _raw_bits(bits: NDArray[np.int16] | NDArray[np.uint16]) -> NDArray[np.uint16]:
    array = np.asarray(bits)
    if array.dtype not in (np.dtype(np.int16), np.dtype(np.uint16)):
        reason = f"dfloat11 takes the bits of bfloat16 numbers, not {array.dtype}"
        raise GraphError("not-numbers", reason, hint="pass array.view(np.uint16)")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint16)


def _require_storable(counts: NDArray[np.int64]) -> None:
    wrong = int(counts[FIRST_POINTER:].sum())
    if wrong:
        largest = int(np.flatnonzero(counts)[-1])
        size = "infinite or not a number" if largest == 255 else f"2^{largest - 127} and more"
        reason = f"dfloat11: {wrong} weights are {size}; below 2^113 they can be stored"
        hint = "store this tensor as plain bfloat16, or look for damage in the checkpoint"
        raise GraphError("exponent-not-storable", reason, hint=hint)


def _total_bits(counts: NDArray[np.int64], tables: CodeTables) -> int:
    return int(counts @ tables.lengths.astype(np.int64))


def _encoded(
    exponent: NDArray[np.uint8], tables: CodeTables, total: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint32]]:
    """Return the bytes of the codes, packed gaps of the threads, and weights before each block."""
    size = -(-total // 8)
    blocks = -(-size // (_BYTES_PER_THREAD * _THREADS_PER_BLOCK))
    gaps = np.zeros(blocks * _THREADS_PER_BLOCK, np.uint8)
    firsts = np.zeros(gaps.size, np.uint32)
    words = np.zeros(total // 32 + 2, np.uint32)
    place, thread = 0, -1
    for begin in range(0, exponent.size, _CHUNK):
        part = exponent[begin : begin + _CHUNK]
        ends = place + np.cumsum(tables.lengths[part], dtype=np.int64)
        starts = np.concatenate([[place], ends[:-1]])
        _write(words, starts, part, tables)
        threads = starts // _BITS_PER_THREAD
        new = np.flatnonzero(np.diff(threads, prepend=thread))
        gaps[threads[new]] = starts[new] % _BITS_PER_THREAD
        firsts[threads[new]] = begin + new
        place, thread = int(ends[-1]), int(threads[-1])
    data = words.astype(">u4").view(np.uint8)[:size].copy()
    if total % 8:
        _write_end(data, tables.end, total)
        if total // _BITS_PER_THREAD != thread:  # the end symbol is the first one of a thread
            gaps[total // _BITS_PER_THREAD] = total % _BITS_PER_THREAD
            firsts[total // _BITS_PER_THREAD] = exponent.size
    fields = np.unpackbits(gaps[:, None], axis=1)[:, 8 - _GAP_BITS :]
    positions = np.append(firsts[::_THREADS_PER_BLOCK], np.uint32(exponent.size))
    return data, np.packbits(fields.reshape(-1)), positions


def _write(
    words: NDArray[np.uint32],
    starts: NDArray[np.int64],
    exponent: NDArray[np.uint8],
    tables: CodeTables,
) -> None:
    """Write the codes of exponents at their bits.

    A code of at most 32 bits adds to one or two words of 32 bits. Sums of disjoint bits of a word
    are below 2^32, so `bincount` adds them without rounding in float64.
    """
    first = int(starts[0]) // 32
    word = starts // 32 - first
    room = 64 - starts % 32 - tables.lengths[exponent]
    pair = tables.codes[exponent] << room.astype(np.uint64)
    count = int(word[-1]) + 2
    high, low = (pair >> np.uint64(32)), (pair & np.uint64(0xFFFFFFFF))
    sums = np.bincount(word, weights=high, minlength=count)
    sums += np.bincount(word + 1, weights=low, minlength=count)
    words[first : first + count] |= sums.astype(np.uint32)


def _write_end(data: NDArray[np.uint8], end: Code, total: int) -> None:
    """Fill the last byte with the end symbol; what does not fit is left out."""
    shift = 8 - total % 8 - end.length
    data[total // 8] |= end.bits << shift if shift >= 0 else end.bits >> -shift


def _unpacked_gaps(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    bits = np.unpackbits(packed)
    whole = bits[: bits.size // _GAP_BITS * _GAP_BITS].reshape(-1, _GAP_BITS)
    return whole.astype(np.int64) @ (1 << np.arange(_GAP_BITS)[::-1])
