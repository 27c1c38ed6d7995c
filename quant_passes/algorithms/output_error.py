"""What a change of a weight changes in the output of its layer."""

import numpy as np

from ascendfx.quant_passes.formats.format import Float64s


def output_squared_errors(change: Float64s, moments: Float64s) -> Float64s:
    """Return for each row of a weight the sum over tokens of the square of what its output is off.

    ``sum_t (x_t . e)^2 = e X^T X e^T``, so no tokens are needed. Rounding can make the sum of a
    change that no token sees negative; it is 0 then.

    Args:
        change: Weight after minus before, ``[out, in]``.
        moments: ``X^T X``, ``[in, in]``.
    """
    return np.maximum(np.einsum("oi,oi->o", change @ moments, change), 0)
