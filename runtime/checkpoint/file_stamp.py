"""Which file it was that something was read of, so that another one is not read in its place."""

import os
from dataclasses import dataclass
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What the system says of a file; it differs when the file is written, cut or replaced.

    Attributes:
        size: In bytes.
        written: Time of the last change, in nanoseconds.
        inode: Number on its disk.
    """

    size: int
    written: int
    inode: int

    def check(self, file: Path, found: os.stat_result) -> None:
        """Check that a file is still the one that was looked at first.

        Raises:
            GraphError: It is not.
        """
        if stamp_of(found) != self:
            raise changed_file(file, "was written or replaced after it was looked at first")


def stamp_of(found: os.stat_result) -> FileStamp:
    """Return the stamp of an open file, or of a name."""
    return FileStamp(found.st_size, found.st_mtime_ns, found.st_ino)


def changed_file(file: Path, what: str) -> GraphError:
    """Return the error for a file that is another one now."""
    return GraphError(
        "changed-file",
        f"{file} {what}: a model would be made of both",
        hint="compile again, and leave the files alone until the engine runs and is saved",
    )
