"""Neighbours in a byte, the first one in its high nibble: bitsandbytes NF4 and FP4."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.packing.nibbles import (
    Bytes,
    from_pairs,
    joined,
    pairs_of,
    require_bytes,
)


def pack(codes: NDArray[Any], *, signed: bool = False) -> Bytes:
    """Return ``[ceil(count / 2)]`` bytes of codes of any shape, in C order.

    Code ``2 i`` is the high nibble of byte ``i``, code ``2 i + 1`` the low one; behind an odd end
    stands zero.

    Args:
        codes: From -8 to 7 if signed, else from 0 to 15.
        signed: Which of the two.

    Raises:
        GraphError: `code-out-of-range`.
    """
    even, odd = pairs_of(codes, signed=signed)
    return joined(odd, even)


def unpack(packed: NDArray[Any], shape: tuple[int, ...], *, signed: bool = False) -> NDArray[Any]:
    """Return the codes of a shape: int8 if signed, else uint8.

    Raises:
        GraphError: `bad-packing`: not as many bytes as the shape needs.
    """
    data = require_bytes(packed, shape, "nibbles, high one first")
    return from_pairs(data >> np.uint8(4), data, shape, signed=signed)
