"""Four-bit codes, two in a byte: what `DType.I4X2` holds.

The first of two is in the low half, each in two's complement. Source: asc-devkit, ``int4b_t``.
"""

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import TensorType

SMALLEST, LARGEST = -8, 7
"""The codes of four bits."""


def pack_pairs(codes: Array) -> Array:
    """Return whole numbers ``[.., 2 h]`` from -8 to 7 as bytes ``[.., h]``, 0 to 255."""
    whole = codes.astype(np.int64)
    return whole[..., ::2] & 15 | (whole[..., 1::2] & 15) << 4


def unpack_pairs(pairs: Array) -> Array:
    """Return the codes ``[.., 2 h]`` of bytes ``[.., h]``."""
    whole = pairs.astype(np.int64)
    both = np.stack([whole & 15, whole >> 4 & 15], axis=-1)
    return ((both ^ 8) - 8).reshape(*whole.shape[:-1], 2 * whole.shape[-1])


def half_of(mnemonic: str, x: TensorType) -> Dim:
    """Return half of the last axis of what is stored in pairs.

    Raises:
        OpTypeError: It is no float, or its last axis is odd or not known.
    """
    length = x.shape[-1] if x.shape else 1
    if not x.dtype.is_float or not isinstance(length, int) or length % 2:
        raise OpTypeError(
            f"{mnemonic}: {x} cannot be stored in pairs",
            hint="codes are whole numbers in a float format, with an even number of them in a row",
        )
    return length // 2
