"""How coarse int8 would be for the middle half of some numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.as_numbers import as_numbers

_SMALLEST = 1e-10


def iqr_score(values: NDArray[Any]) -> float:
    """Return the step of int8 for all numbers over the distance of their quartiles.

    ``(2 max|v| / 254) / (Q3 - Q1 + 1e-10)`` with ``Q1 = sorted[n // 4]`` and
    ``Q3 = sorted[3 (n // 4)]``. Numbers that are all multiplied by the same keep their score, so
    that layers can be compared: the higher, the more bits a layer deserves.

    Args:
        values: A weight or some inputs, of any shape.

    Raises:
        GraphError: `bad-statistics`: there are no values; `values-not-finite`; `not-numbers`.

    Source: msModelSlim 3de0a3c4, metric `quantile`. There every 100th of the sorted activations of
    a batch is looked at, to save time; here all of them.
    """
    numbers = as_numbers(values).astype(np.float64, copy=False).ravel()
    if not numbers.size:
        raise GraphError(
            "bad-statistics", "no values have no quartiles", hint="calibrate with more tokens"
        )
    if not np.isfinite(numbers).all():
        reason = "the quartiles of infinities and NaN are not known"
        raise GraphError("values-not-finite", reason, hint="look for damage in the checkpoint")
    quarter = numbers.size // 4
    split = np.partition(numbers, (quarter, 3 * quarter))
    step = 2 * np.abs(numbers).max() / 254
    return float(step / (split[3 * quarter] - split[quarter] + _SMALLEST))
