"""Codes side by side in words of 32 bits: ``pack-quantized`` of compressed-tensors.

Source: compressed-tensors 0.20.1, by running it; codes of three bits run across
the borders of words there (older versions leave two bits of each word unused).
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import require_codes

_WIDTHS = (2, 3, 4, 8)
_PERIOD = 32
"""After so many codes of any width, a word ends where a code ends."""
_CODES = 1 << 15
"""Codes at a time."""


def pack(codes: NDArray[Any], bits: int, *, axis: int = -1) -> NDArray[np.int32]:
    """Return codes from ``-2**(bits-1)`` on as words, low end first.

    Code ``i`` plus ``2**(bits-1)`` stands at bit ``i * bits`` of its row. Weights are packed along
    their last axis, zero points along axis 0.

    Args:
        codes: At least one axis.
        bits: 2, 3, 4 or 8.
        axis: Which axis is packed.

    Returns:
        The same shape with ``ceil(n * bits / 32)`` words along the axis.

    Raises:
        GraphError: `bad-packing`: another width, or no such axis; `code-out-of-range`.
    """
    half = 1 << (_require_width(bits) - 1)
    rows = np.moveaxis(_require_axis(codes, axis), axis, -1)
    checked = require_codes(rows, -half, half - 1, f"int{bits}")
    count = rows.shape[-1]
    flat = checked.reshape(math.prod(rows.shape[:-1]), count)
    words = np.empty((len(flat), -(-count * bits // 32)), np.int32)
    for part in _parts(len(flat), count):
        words[part] = _packed(flat[part], bits)
    return np.moveaxis(words.reshape(*rows.shape[:-1], words.shape[1]), -1, axis)


def unpack(packed: NDArray[Any], bits: int, count: int, *, axis: int = -1) -> NDArray[np.int8]:
    """Return the ``count`` codes along an axis that `pack` made words of.

    Raises:
        GraphError: `bad-packing`: another width, no words of 32 bits, or another number of them.
    """
    _require_width(bits)
    words = np.moveaxis(_require_axis(packed, axis), axis, -1)
    wanted = -(-count * bits // 32)
    if words.dtype.kind not in "iu" or words.dtype.itemsize != 4 or words.shape[-1] != wanted:
        reason = f"{words.shape[-1]} elements of {words.dtype} are not {count} codes of int{bits}"
        raise GraphError("bad-packing", reason, hint=f"they need {wanted} words of 32 bits")
    flat = (
        words.reshape(math.prod(words.shape[:-1]), wanted)
        .astype(words.dtype.newbyteorder("="), copy=False)
        .view(np.uint32)
    )
    codes = np.empty((len(flat), count), np.int8)
    for part in _parts(len(flat), count):
        codes[part] = _unpacked(flat[part], bits, count)
    return np.moveaxis(codes.reshape(*words.shape[:-1], count), -1, axis)


def _packed(codes: NDArray[Any], bits: int) -> NDArray[np.int32]:
    """Return ``[rows, ceil(count * bits / 32)]`` words of ``[rows, count]`` codes."""
    rows, count = codes.shape
    periods = -(-count // _PERIOD)
    # Unused bits are zero, not the code that zero would be.
    stored = np.zeros((rows, periods * _PERIOD), np.uint32)
    stored[:, :count] = codes.astype(np.int16) + (1 << (bits - 1))
    fields = stored.reshape(rows, periods, _PERIOD)
    words = np.zeros((rows, periods, bits), np.uint32)
    for place in range(_PERIOD):
        word, shift = divmod(place * bits, 32)
        words[..., word] |= fields[..., place] << np.uint32(shift)
        if shift + bits > 32:
            words[..., word + 1] |= fields[..., place] >> np.uint32(32 - shift)
    return words.reshape(rows, periods * bits)[:, : -(-count * bits // 32)].view(np.int32)


def _unpacked(words: NDArray[np.uint32], bits: int, count: int) -> NDArray[np.int8]:
    """Return the ``[rows, count]`` codes of words, the inverse of `_packed`."""
    rows, width = words.shape
    periods = -(-count // _PERIOD)
    filled = np.zeros((rows, periods * bits), np.uint32)
    filled[:, :width] = words
    data = filled.reshape(rows, periods, bits)
    fields = np.empty((rows, periods, _PERIOD), np.uint8)
    for place in range(_PERIOD):
        word, shift = divmod(place * bits, 32)
        field = data[..., word] >> np.uint32(shift)
        if shift + bits > 32:
            field |= data[..., word + 1] << np.uint32(32 - shift)
        fields[..., place] = field & np.uint32((1 << bits) - 1)
    offset = fields.reshape(rows, periods * _PERIOD)[:, :count].astype(np.int16)
    return (offset - (1 << (bits - 1))).astype(np.int8)


def _parts(rows: int, count: int) -> Iterator[slice]:
    """Yield rows at a time whose codes fit a cache."""
    step = max(1, _CODES // max(1, count))
    for top in range(0, rows, step):
        yield slice(top, top + step)


def _require_width(bits: int) -> int:
    if bits not in _WIDTHS:
        reason = f"codes of {bits} bits are not packed into words"
        raise GraphError("bad-packing", reason, hint="widths are 2, 3, 4 and 8 bits")
    return bits


def _require_axis(array: NDArray[Any], axis: int) -> NDArray[Any]:
    result = np.asarray(array)
    if not -result.ndim <= axis < result.ndim:
        reason = f"{list(result.shape)} codes have no axis {axis}"
        raise GraphError("bad-packing", reason, hint="pack along an axis that exists")
    return result
