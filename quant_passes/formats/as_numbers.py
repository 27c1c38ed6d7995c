"""Arrays that a caller hands in, as real numbers that NumPy computes with."""

from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError

_NARROW = (np.dtype(np.float16), np.dtype(bfloat16))


def as_numbers(values: NDArray[Any]) -> NDArray[np.float32] | NDArray[np.float64]:
    """Return the same numbers as float32 or float64, whichever holds them exactly.

    Raises:
        GraphError: `not-numbers`: the elements are complex, objects, texts or truth values.
    """
    array = np.asarray(values)
    if array.dtype in _NARROW or array.dtype == np.float32:
        return array.astype(np.float32, copy=False)
    if array.dtype == np.float64 or np.issubdtype(array.dtype, np.integer):
        return array.astype(np.float64, copy=False)
    raise GraphError(
        "not-numbers",
        f"the values have elements of {array.dtype}",
        hint="quantize arrays of float64, float32, float16, bfloat16 or integers",
    )


def refuse_nan(values: NDArray[Any], name: str) -> None:
    """Refuse what is not a number for a format that has no code for it.

    Raises:
        GraphError: `nan-has-no-code`, with the first place.
    """
    if values.size == 0 or not np.isnan(np.min(values)):
        return
    missing = np.isnan(values)
    place = ", ".join(str(int(i)) for i in np.unravel_index(int(missing.argmax()), values.shape))
    raise GraphError(
        "nan-has-no-code",
        f"{name}: {int(missing.sum())} of {values.size} values are not numbers; the first is "
        f"at [{place}]",
        hint="look for an overflow in the model or in calibration, or replace them before",
    )


def require_codes(codes: NDArray[Any], low: int, high: int, name: str) -> NDArray[Any]:
    """Return codes as they are if they are integers from ``low`` to ``high``.

    Raises:
        GraphError: `code-out-of-range`.
    """
    array = np.asarray(codes)
    if not np.issubdtype(array.dtype, np.integer):
        reason = f"{name}: codes are integers, not {array.dtype}"
    elif _may_be_outside(array, low, high) and (array.min() < low or array.max() > high):
        reason = f"{name}: codes go from {array.min()} to {array.max()}, not {low} to {high}"
    else:
        return array
    raise GraphError("code-out-of-range", reason, hint="decode with the format that made the codes")


def _may_be_outside(array: NDArray[Any], low: int, high: int) -> bool:
    held = np.iinfo(array.dtype)
    return array.size > 0 and (held.min < low or held.max > high)
