"""The one error for a place that cannot be written."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def disk_error(path: Path, error: OSError) -> GraphError:
    """Return the error for ``path`` that ``error`` of the system means."""
    return GraphError(
        code="disk-full" if error.errno in _FULL else "not-writable",
        reason=f"{path} cannot be written: {error.strerror or error}",
        hint="free some space, or write to another folder",
    )


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
