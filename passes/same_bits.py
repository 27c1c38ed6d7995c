"""What "the same bits" means: for a rule, for a pass, and for a reduced case."""

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.tensor_type import DType


def same_bits(a: Array, c: Array) -> Array:
    """Say element by element whether two results are the same bits; any NaN equals any other.

    The zeros differ: ``1 / 0.0`` is not ``1 / -0.0``.
    """
    if a.dtype.kind != "f":
        return np.asarray(a == c)
    same = (a == c) & (np.signbit(a) == np.signbit(c))
    return np.asarray(same | (np.isnan(a) & np.isnan(c)))


def same_in_format(dtype: DType, a: Array, c: Array) -> bool:
    """Say whether two arrays, floats as float64, are the same bits once they are stored."""
    if a.shape != c.shape:
        return False
    if np.all(same_bits(a, c)):
        return True
    if not dtype.is_float:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = [each.astype(dtype.numpy).astype(np.float64) for each in (a, c)]
    return bool(np.all(same_bits(*narrow)))
