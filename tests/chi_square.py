"""How likely counts are under a distribution."""

from collections.abc import Sequence

import mpmath
import numpy as np
from numpy.typing import NDArray


def chi_square_p(counts: NDArray[np.int64], shares: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the probability of counts at least as far from ``shares`` (Pearson, 1900).

    Args:
        counts: Of each outcome; where the share is 0 there must be none.
        shares: Of each outcome, in any unit.
    """
    weights = np.asarray(shares, np.float64)
    possible = weights > 0
    if counts[~possible].any():
        return 0.0
    expected = weights[possible] / weights.sum() * counts.sum()
    statistic = float(((counts[possible] - expected) ** 2 / expected).sum())
    freedom = int(possible.sum()) - 1
    if freedom == 0:
        return 1.0
    return float(mpmath.gammainc(freedom / 2, statistic / 2, regularized=True))
