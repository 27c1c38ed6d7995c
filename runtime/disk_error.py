"""The one error for a place that cannot be written."""

import errno
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_HINTS = {
    errno.ENOENT: "its folder does not exist and cannot be made here; write to another folder",
    errno.ENOTDIR: "a part of the path is a file; choose another name",
    errno.EISDIR: "it is a folder; choose another name",
    errno.EACCES: "you may not write there; write to another folder, or change its permissions",
    errno.EPERM: "you may not write there; write to another folder, or change its permissions",
    errno.EROFS: "the disk is read-only; write to another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
} | dict.fromkeys(_FULL, "free some space, or write to another folder")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def disk_error(path: Path, error: OSError) -> GraphError:
    """Return the error for ``path`` that ``error`` of the system means."""
    return GraphError(
        code="disk-full" if error.errno in _FULL else "not-writable",
        reason=f"{path} cannot be written: {error.strerror or error}",
        hint=_HINTS.get(error.errno or 0, "write to another folder"),
    )


def wrapped_os_error(error: Exception) -> OSError:
    """Return what the system reported, of an error that only quotes it, as those of safetensors.

    Their text has the name of a temporary file, too.
    """
    number = _OS_ERROR.search(str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError(str(error))


@contextmanager
def named_as(temporary: Path, place: Path) -> Generator[None]:
    """Name ``place`` in the errors of what is written to ``temporary`` first.

    Raises:
        GraphError: As inside, with the name that the user gave.
    """
    try:
        yield
    except GraphError as error:
        error.reason = error.reason.replace(str(temporary), str(place))
        error.notes = tuple(each.replace(str(temporary), str(place)) for each in error.notes)
        raise


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn what the system reports inside into one error that names ``path``.

    Raises:
        GraphError: The disk is full, or the place is not writable.
    """
    try:
        yield
    except OSError as error:
        raise disk_error(path, error) from error
