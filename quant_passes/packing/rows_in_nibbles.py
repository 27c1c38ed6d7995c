"""Pairs of rows in the nibbles of a byte: INT4 weights of msModelSlim and OptiQuant (W4A8)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.packing.nibbles import joined, signed_low, unsigned


def pack(codes: NDArray[Any]) -> NDArray[np.int8]:
    """Return ``[*leading, out / 2, in]`` bytes of ``[*leading, out, in]`` codes from -8 to 7.

    Byte ``r`` holds row ``2 r`` in its low nibble and row ``2 r + 1`` in its high one.

    Raises:
        GraphError: `bad-packing`: an odd number of rows, or fewer than two axes;
            `code-out-of-range`.
    """
    array = np.asarray(codes)
    if array.ndim < 2 or array.shape[-2] % 2:
        reason = f"rows of {list(array.shape)} codes do not form pairs"
        raise GraphError("bad-packing", reason, hint="codes are [*leading, out, in] with even out")
    nibbles = unsigned(array, -8, 7)
    return joined(nibbles[..., 0::2, :], nibbles[..., 1::2, :]).view(np.int8)


def unpack(packed: NDArray[Any]) -> NDArray[np.int8]:
    """Return the ``[*leading, out, in]`` codes of ``[*leading, out / 2, in]`` bytes.

    Raises:
        GraphError: `bad-packing`: not bytes, or fewer than two axes.
    """
    array = np.asarray(packed)
    if array.ndim < 2 or array.dtype not in (np.dtype(np.int8), np.dtype(np.uint8)):
        reason = f"{array.dtype}{list(array.shape)} is not packed by pairs of rows"
        raise GraphError("bad-packing", reason, hint="it is int8 [*leading, out / 2, in]")
    data = np.ascontiguousarray(array).view(np.uint8)
    *leading, pairs, columns = array.shape
    codes = np.empty((*leading, pairs, 2, columns), np.int8)
    codes[..., 0, :] = signed_low(data)
    codes[..., 1, :] = signed_low(data >> np.uint8(4))
    return codes.reshape(*leading, 2 * pairs, columns)
