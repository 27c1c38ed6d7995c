"""The inputs of one weight, until their statistics are asked for or are smaller than they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.calibration.row_store import Rows, RowStore, StoredRows, pieces
from ascendfx.quant_passes.statistics import (
    InputStatistics,
    merged,
    statistics_of,
    without_tokens,
)

_AT_ONCE = 1 << 26
"""Bytes of rows of which statistics are made at once."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What is to be known of the inputs of a weight.

    Attributes:
        moments: ``X^T X``.
        keep: Rows to keep of each window.
    """

    moments: bool = False
    keep: int = 0


class GatheredRows:
    """Adds up rows ``[tokens, in]``; the statistics are made when they are asked for.

    An expert sees few tokens, and ``X^T X`` of each is far larger than these: its rows wait, in a
    file if need be. Of other weights they wait until sums in float32 take less memory.
    """

    def __init__(
        self, channels: int, collected: Collected, store: RowStore, *, expert: bool = False
    ) -> None:
        """Begin without rows.

        Args:
            channels: Inputs of the weight.
            collected: What is wanted.
            store: Keeps the rows.
            expert: Whether it is one of many that share a key.
        """
        self._channels, self._wanted, self._store = channels, collected, store
        self._most = channels if collected.moments else 0  # X^T X has as many rows
        self._waits = expert and collected.moments
        self._waiting: list[Rows | StoredRows] = []
        self._rows = 0
        self._known: InputStatistics | None = None
        self._sums: NDArray[np.float32] | None = None
        self.tokens = 0

    def add(self, rows: Rows) -> None:
        """Add rows, ``[tokens, in]``.

        Raises:
            GraphError: `values-not-finite`: an activation overflowed.
            RowFileError: There is no place for a file of rows.
        """
        if not len(rows):
            return
        if not np.isfinite(rows).all():
            statistics_of(rows)  # says what is wrong
        self.tokens += len(rows)
        if not self._waits and self._rows + len(rows) > self._most:
            self._add_up([*self._waiting, rows])
            self._store.give_back(self._waiting)
            self._waiting, self._rows = [], 0
            return
        self._waiting.append(self._store.keep(rows))
        self._rows += len(rows)

    def statistics(self) -> InputStatistics:
        """Return the statistics of all rows so far; they are not kept."""
        known, moments = self._known, None
        if self._wanted.moments:
            moments = np.zeros((self._channels,) * 2)
            if self._sums is not None:
                moments += self._sums
        for rows in pieces(self._waiting, _AT_ONCE):
            known = self._with(known, rows)
            if moments is not None:
                moments += rows.T @ rows
        if known is None:
            known = without_tokens(self._channels, moments=False, keep=self._wanted.keep)
        return replace(known, moments=moments)

    def _add_up(self, kept: Sequence[Rows | StoredRows]) -> None:
        for rows in pieces(kept, _AT_ONCE):
            self._known = self._with(self._known, rows)
            if self._wanted.moments:
                new = rows.T @ rows
                if self._sums is None:
                    self._sums = new
                else:
                    self._sums += new

    def _with(self, known: InputStatistics | None, rows: Rows) -> InputStatistics:
        new = statistics_of(rows, moments=False, keep=self._wanted.keep)
        return new if known is None else merged(known, new)
