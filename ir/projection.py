"""What projections share: the format of their results, and exact products of integers."""

import numpy as np

from ascendfx.ir.code_pairs import unpack_pairs
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array
from ascendfx.ir.tensor_type import DType, TensorType

LONGEST_OF_CODES = 2**17 - 1
"""Terms of a sum of products of two int8 codes that int32 holds: each product is at most 2^14.

Of four-bit codes it is as many pairs, and f32 holds each sum: a product is at most 2^6.
"""

_EXACT_IN_FLOAT64 = 2**53


def projected_format(mnemonic: str, x: TensorType, w: TensorType, *, pairs: bool) -> DType:
    """Return the element format of a product: that of both factors, and ``i32`` for codes.

    Args:
        mnemonic: The operation, for messages.
        x: Rows, ``[.., k]``.
        w: A weight, ``[.., n, k]``.
        pairs: Whether the operation says that both are ``i4x2``.

    Raises:
        OpTypeError: The formats differ or are not what the operation says, or a sum of codes could
            leave int32.
    """
    if x.dtype is not w.dtype:
        raise OpTypeError(
            f"{mnemonic}: formats differ: {x.dtype.value} and {w.dtype.value}",
            hint="insert a cast; codes are multiplied by codes, and scaled afterwards",
        )
    if pairs != (x.dtype is DType.I4X2):
        raise OpTypeError(
            f"{mnemonic}: `pairs` is for i4x2, and for nothing else, got {x.dtype.value}",
            hint="say `pairs=true` where four-bit codes are multiplied",
        )
    if x.dtype not in (DType.I8, DType.I4X2):
        return x.dtype
    length = x.shape[-1]
    if not isinstance(length, int) or length > LONGEST_OF_CODES:
        raise OpTypeError(
            f"{mnemonic}: {length} products of codes can leave int32, "
            f"{LONGEST_OF_CODES} cannot: {x} and {w}",
            hint="split the inner axis and add the parts as f32",
        )
    return DType.I32


def pairs_product(x: Array, weight: Array) -> Array:
    """Return the product of codes that lie in pairs."""
    return product(unpack_pairs(x), unpack_pairs(weight))


def product(x: Array, weight: Array) -> Array:
    """Return ``x @ weight.T`` without rounding; integers as float64 where that is exact.

    NumPy multiplies integer matrices term by term, floats by a library.
    """
    if x.dtype.kind != "i" or weight.dtype.kind != "i":
        return x @ weight.T
    largest = float(_magnitude(x)) * _magnitude(weight) * x.shape[-1]
    if largest >= _EXACT_IN_FLOAT64:
        return x @ weight.T
    return (x.astype(np.float64) @ weight.T.astype(np.float64)).astype(np.int64)


def _magnitude(codes: Array) -> int:
    return max(int(codes.max()), -int(codes.min())) if codes.size else 0
