"""Rows that wait for the statistics of a layer: in memory, and in a file beyond some bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows ``[rows, channels]`` in a file.

    Attributes:
        file: No other process sees it, and nothing is left of it.
        start: First byte.
        shape: Rows, channels.
    """

    file: IO[bytes]
    start: int
    shape: tuple[int, int]

    def read(self) -> Rows:
        """Return the rows."""
        self.file.seek(self.start)
        found = np.fromfile(self.file, np.float32, self.shape[0] * self.shape[1])
        return found.reshape(self.shape)


class RowStore:
    """Keeps rows for all weights of a layer, so that one limit holds for all of them."""

    def __init__(self, most: int = 1 << 29) -> None:
        """Begin without rows.

        Args:
            most: Bytes that stay in memory.
        """
        self._most = most
        self._file: IO[bytes] | None = None
        self._end = 0
        self.bytes = 0

    def keep(self, rows: Rows) -> Rows | StoredRows:
        """Return rows as they are kept: a copy."""
        if self.bytes + rows.nbytes <= self._most:
            self.bytes += rows.nbytes
            return np.array(rows)
        if self._file is None:
            self._file = TemporaryFile()  # noqa: SIM115  # closed when the last rows are gone
        stored = StoredRows(self._file, self._end, (rows.shape[0], rows.shape[1]))
        self._file.seek(self._end)
        self._file.write(np.ascontiguousarray(rows).data)
        self._end += rows.nbytes
        return stored


def rows_of(kept: Rows | StoredRows) -> Rows:
    """Return rows that a store keeps."""
    return kept.read() if isinstance(kept, StoredRows) else kept


def pieces(kept: Sequence[Rows | StoredRows], bytes_at_once: int) -> Iterator[Rows]:
    """Yield all rows in their order, some at once; one that was kept is not divided."""
    waiting: list[Rows] = []
    size = 0
    for each in kept:
        rows = rows_of(each)
        if waiting and size + rows.nbytes > bytes_at_once:
            yield np.concatenate(waiting)
            waiting, size = [], 0
        waiting.append(rows)
        size += rows.nbytes
    if waiting:
        yield np.concatenate(waiting)
