"""A power of two per row, so that descents do not depend on how large weights are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.formats.format import Float64s


def row_units(rows: NDArray[Any]) -> Float64s:
    """Return for each row the power of two just above its largest magnitude, ``[rows, 1]``.

    Adam adds 1e-8 to the size of gradients, which stops it for small weights; over these units
    gradients are alike. 1 for rows of zeros. Products with them are exact.
    """
    absmax = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    return np.ldexp(1.0, np.frexp(absmax)[1]).astype(np.float64)
