"""What projections share: the format of their results, and exact products of integers."""

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array
from ascendfx.ir.tensor_type import DType, TensorType

LONGEST_OF_CODES = 2**17 - 1
"""Terms of a sum of products of two int8 codes that int32 holds: each product is at most 2^14."""

_EXACT_IN_FLOAT64 = 2**53


def projected_format(mnemonic: str, x: TensorType, w: TensorType) -> DType:
    """Return the element format of a product: that of both factors, and ``i32`` for ``i8``.

    Args:
        mnemonic: The operation, for messages.
        x: Rows, ``[.., k]``.
        w: A weight, ``[.., n, k]``.

    Raises:
        OpTypeError: The formats differ, or a sum of codes could leave int32.
    """
    if x.dtype is not w.dtype:
        raise OpTypeError(
            f"{mnemonic}: formats differ: {x.dtype.value} and {w.dtype.value}",
            hint="insert a cast; codes are multiplied by codes, and scaled afterwards",
        )
    if x.dtype is not DType.I8:
        return x.dtype
    length = x.shape[-1]
    if not isinstance(length, int) or length > LONGEST_OF_CODES:
        raise OpTypeError(
            f"{mnemonic}: {length} products of codes can leave int32, "
            f"{LONGEST_OF_CODES} cannot: {x} and {w}",
            hint="split the inner axis and add the parts as f32",
        )
    return DType.I32


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
