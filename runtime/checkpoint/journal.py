"""Which tensors of an unfinished checkpoint are written: a line each, behind a line on the job.

A line counts when it is whole. What it says is checked against the file when work goes on, so that
nothing depends on the order in which a disk writes.
"""

import fcntl
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ascendfx.ir.diagnostic import GraphError

NAME = ".ascendfx-journal"


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal that this process alone writes to.

    Attributes:
        file: Opened for appending.
        sums: Checksums of the parts of each tensor that is written, as the last run left them.
    """

    file: BinaryIO
    sums: Mapping[str, Mapping[str, int]]

    def add(self, name: str, sums: Mapping[str, int]) -> None:
        """Note that a tensor is written."""
        self.file.write(_line({"tensor": name, "sums": dict(sums)}))
        self.file.flush()


@contextmanager
def opened_journal(folder: Path, job: str) -> Generator[Journal]:
    """Open the journal of a folder, or begin it.

    Args:
        folder: Where the unfinished checkpoint is.
        job: What decides every byte of the result.

    Raises:
        GraphError: `writer-busy`: another process writes there; `other-job`: the folder holds the
            beginning of another result.
    """
    path = folder / NAME
    with path.open("a+b") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise GraphError(
                "writer-busy",
                f"another process is writing to {folder}",
                hint="wait for it, or end it",
            ) from error
        lines, end = _whole_lines(file)
        os.ftruncate(file.fileno(), end)
        if not lines:
            os.ftruncate(file.fileno(), 0)
            file.write(_line({"job": job}))
            file.flush()
        elif lines[0].get("job") != job:
            raise GraphError(
                "other-job",
                f"{folder} holds the beginning of another result: recipe, model or options differ",
                hint="delete that folder, or write to another place",
            )
        yield Journal(file, {each["tensor"]: each["sums"] for each in lines[1:]})


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _whole_lines(file: BinaryIO) -> tuple[list[dict[str, Any]], int]:
    """Return the lines before the first one that is cut off or damaged, and where they end."""
    file.seek(0)
    lines: list[dict[str, Any]] = []
    end = 0
    for text in file:
        try:
            line: Any = json.loads(text)
        except ValueError:
            break
        known = isinstance(line, dict) and ({"tensor", "sums"} if lines else {"job"}) <= line.keys()
        if not known or not text.endswith(b"\n"):
            break
        lines.append(line)
        end += len(text)
    return lines, end
