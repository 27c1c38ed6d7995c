"""The inputs of one weight, until their statistics are smaller than they are."""

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.statistics import (
    InputStatistics,
    merged,
    statistics_of,
    without_tokens,
)

_ROWS_PER_CHANNEL = 2
"""Rows of float32 beyond which ``X^T X`` in float64 takes less memory."""


class GatheredRows:
    """Adds up rows ``[tokens, in]``; the statistics are made when they are asked for.

    An expert sees few tokens, and ``X^T X`` of each is far larger than these.
    """

    def __init__(self, channels: int, *, moments: bool, keep: int) -> None:
        """Begin without rows.

        Args:
            channels: Inputs of the weight.
            moments: Whether ``X^T X`` is wanted.
            keep: How many rows are kept of each part that is added.
        """
        self._channels = channels
        self._options = {"moments": moments, "keep": keep}
        self._limit = _ROWS_PER_CHANNEL * channels if moments else 0
        self._waiting: list[NDArray[np.float32]] = []
        self._known: InputStatistics | None = None
        self.tokens = 0

    def add(self, rows: NDArray[np.float32]) -> None:
        """Add rows, ``[tokens, in]``.

        Raises:
            GraphError: `values-not-finite`: an activation overflowed.
        """
        if not len(rows):
            return
        self.tokens += len(rows)
        self._waiting.append(np.array(rows))
        if sum(map(len, self._waiting)) > self._limit:
            self._known = self.statistics()
            self._waiting = []

    def statistics(self) -> InputStatistics:
        """Return the statistics of all rows so far.

        Raises:
            GraphError: `values-not-finite`.
        """
        rows = self._waiting
        if not rows:
            return self._known or without_tokens(self._channels, **self._options)
        new = statistics_of(np.concatenate(rows), **self._options)
        return merged(self._known, new) if self._known else new
