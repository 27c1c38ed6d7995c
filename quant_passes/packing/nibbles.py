"""Four-bit codes as nibbles of bytes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import require_codes

Bytes = NDArray[np.uint8]


def unsigned(codes: NDArray[Any], low: int, high: int) -> Bytes:
    """Return codes from ``low`` to ``high`` in the four lowest bits, two's complement.

    Raises:
        GraphError: `code-out-of-range`.
    """
    return (require_codes(codes, low, high, "nibbles") & 0xF).astype(np.uint8)


def joined(low: Bytes, high: Bytes) -> Bytes:
    """Return bytes of low and high nibbles."""
    return low | (high << np.uint8(4))


def signed_low(data: Bytes) -> NDArray[np.int8]:
    """Return the low nibble of each byte as a number from -8 to 7."""
    return ((data << np.uint8(4)).view(np.int8)) >> np.int8(4)


def pairs_of(codes: NDArray[Any], *, signed: bool) -> tuple[Bytes, Bytes]:
    """Return the even and the odd ones of the codes in C order; a zero fills up an odd count.

    Raises:
        GraphError: `code-out-of-range`.
    """
    low, high = (-8, 7) if signed else (0, 15)
    flat = unsigned(np.asarray(codes).reshape(-1), low, high)
    filled = np.concatenate([flat, np.zeros(flat.size % 2, np.uint8)])
    return filled[0::2], filled[1::2]


def from_pairs(even: Bytes, odd: Bytes, shape: tuple[int, ...], *, signed: bool) -> NDArray[Any]:
    """Return the codes of a shape from the low nibbles of two arrays, its inverse."""
    nibbles = np.stack([even, odd], axis=-1).reshape(-1)[: int(np.prod(shape, dtype=np.int64))]
    return (signed_low(nibbles) if signed else nibbles & np.uint8(0xF)).reshape(shape)


def require_bytes(packed: NDArray[Any], shape: tuple[int, ...], layout: str) -> Bytes:
    """Return packed bytes as uint8 if they are as many as the codes of a shape need.

    Raises:
        GraphError: `bad-packing`.
    """
    data = np.ascontiguousarray(packed).reshape(-1)
    wanted = -(-int(np.prod(shape, dtype=np.int64)) // 2)
    if data.dtype not in (np.dtype(np.uint8), np.dtype(np.int8)) or data.size != wanted:
        reason = f"{layout}: {data.size} elements of {data.dtype} are not {list(shape)} codes"
        raise GraphError("bad-packing", reason, hint=f"they need {wanted} bytes")
    return data.view(np.uint8)
