"""Rows that wait for the statistics of a layer: in memory, and in a file beyond some bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from tempfile import TemporaryFile

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


class RowFileError(OSError):
    """The system has no place for rows; `errno` says why."""


class _RowFile:
    """A file that no other process sees, and of which nothing is left once nobody needs it."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._end = 0

    def __del__(self) -> None:
        self._file.close()

    def write(self, rows: Rows) -> int:
        """Append rows; return their first byte."""
        start, self._end = self._end, self._end + rows.nbytes
        self._file.seek(start)
        left = np.ascontiguousarray(rows).data.cast("B")
        while left:
            left = left[self._file.write(left) or 0 :]
        return start

    def read(self, start: int, size: int) -> bytearray:
        """Return bytes that were written."""
        found = bytearray(size)
        left = memoryview(found)
        self._file.seek(start)
        while left:
            count = self._file.readinto(left)
            if not count:
                raise AssertionError("rows were written beyond the end of their file")
            left = left[count:]
        return found


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows ``[rows, channels]`` in a file.

    Attributes:
        file: Where they are.
        start: First byte.
        shape: Rows, channels.
    """

    file: _RowFile
    start: int
    shape: tuple[int, int]

    def read(self) -> Rows:
        """Return the rows."""
        found = self.file.read(self.start, 4 * self.shape[0] * self.shape[1])
        return np.frombuffer(found, np.float32).reshape(self.shape)


class RowStore:
    """Keeps rows for all weights of a layer, so that one limit holds for all of them."""

    def __init__(self, most: int = 1 << 29) -> None:
        """Begin without rows.

        Args:
            most: Bytes that stay in memory.
        """
        self._most = most
        self._file: _RowFile | None = None
        self.bytes = 0

    def keep(self, rows: Rows) -> Rows | StoredRows:
        """Return rows as they are kept: a copy.

        Raises:
            RowFileError: They are too many for memory, and there is no place for a file.
        """
        if self.bytes + rows.nbytes <= self._most:
            self.bytes += rows.nbytes
            return np.array(rows)
        try:
            if self._file is None:
                # Pieces are large already, and a buffer would hide when the disk is full.
                self._file = _RowFile(TemporaryFile(buffering=0))  # noqa: SIM115  # of all rows
            start = self._file.write(rows)
        except OSError as error:
            raise RowFileError(error.errno, error.strerror) from error
        return StoredRows(self._file, start, (rows.shape[0], rows.shape[1]))

    def give_back(self, kept: Sequence[Rows | StoredRows]) -> None:
        """Take note that rows are not kept any longer."""
        self.bytes -= sum(each.nbytes for each in kept if not isinstance(each, StoredRows))


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
