"""What a termination of the command ends: compilers that it started, and what these started."""

import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn


@contextmanager
def terminated_with_children() -> Generator[None]:
    """Let SIGTERM inside end the compilers, too, and clean up as an interruption does.

    Control-C in a terminal reaches every process by itself; SIGTERM reaches the one that it is sent
    to, and a compiler would go on for minutes.
    """
    if threading.current_thread() is not threading.main_thread():  # others may not set signals
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what follows cleans up
    for child in _descendants(os.getpid()):
        with suppress(OSError):  # it ended meanwhile
            os.kill(child, number)
    sys.exit(128 + number)


def _descendants(process: int) -> list[int]:
    """Return the numbers of the processes that ``process`` started, directly or not."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            status = (folder / "stat").read_text(errors="replace")
            parent = int(status.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    return _below(process, children)


def _below(process: int, children: dict[int, list[int]]) -> list[int]:
    found: list[int] = []
    rest: Iterable[int] = children.get(process, ())
    while rest:
        found += rest
        rest = [each for one in rest for each in children.get(one, ())]
    return found
