"""Rounding to a format of floats while the numbers stay where NumPy computes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.kept_roundings import narrow_to_odd
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.format import Floats


def cast_to(values: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Return float32 or float64 numbers in a format of floats, rounded once, ties to even."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if values.dtype == np.float64 and dtype in {DType.BF16, DType.F16}:
            return narrow_to_odd(values).astype(dtype.numpy)
        return values.astype(dtype.numpy, copy=False)


def rounded_to(values: NDArray[Any], dtype: DType) -> Floats:
    """Return the numbers of `cast_to` as float64 if ``dtype`` is that, else as float32."""
    cast = cast_to(values, dtype)
    return cast if dtype is DType.F64 else cast.astype(np.float32, copy=False)
