"""The one way to write a file: complete under its name, or not at all; links and devices stay."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError


@contextmanager
def replacing(file: Path) -> Generator[Path]:
    """Yield a temporary name; what is written there gets the name ``file`` at the end.

    A link to a file stays a link: what it points to is replaced. After an error or an interruption
    nothing is left under the temporary name.

    Raises:
        GraphError: As `place_of`.
        OSError: The system refuses; see `ascendfx.runtime.disk_error.writing`.
    """
    place = place_of(file)
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(place)
    finally:
        with suppress(OSError):  # its folder is none: the error that is on its way says so
            temporary.unlink(missing_ok=True)


def place_of(file: Path) -> Path:
    """Return the regular file that writing ``file`` makes or replaces, links followed.

    Raises:
        GraphError: A file cannot have this name, or something else has it: a folder, a device, a
            pipe, or the file to which our output goes, as with ``/dev/stdout``.
    """
    try:
        place, found = file.resolve(), _status(file)
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, a circle of links
        raise refused_place(file, str(error)) from error
    if found is None:
        return place
    if stat.S_ISDIR(found.st_mode):
        raise refused_place(file, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise refused_place(file, "it is no regular file")
    if any(_is_open_as(number, found) for number in (1, 2)):
        raise refused_place(file, "what the command prints goes there")
    return place


def refused_place(file: Path, why: str) -> GraphError:
    """Return the error for a name that cannot be written."""
    return GraphError(
        "not-writable", f"{file} cannot be written: {why}", hint="choose another name"
    )


def _status(file: Path) -> os.stat_result | None:
    """Return what the system finds; it knows what ``/dev/stdout`` is, where names do not help."""
    try:
        return file.stat()
    except FileNotFoundError:
        return None


def _is_open_as(number: int, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(number), found)
    except OSError:  # it is closed
        return False
