"""Lines that the solver prints by itself are kept from standard output."""

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile

_MARK = b"HighsMipSolverData::"
"""HiGHS names the function in which it repairs a solution, whatever its options say."""


@contextmanager
def without_solver_lines() -> Generator[None]:
    """Keep lines of HiGHS from the standard output of the process; all others are written.

    It prints by `printf`, beside `sys.stdout`: results of a command that another one reads would
    have its lines among them. What other threads print meanwhile comes out at the end.
    """
    try:
        own = os.dup(1)
    except OSError:  # closed: nothing is printed there
        yield
        return
    with TemporaryFile() as caught:
        _flush()
        os.dup2(caught.fileno(), 1)
        try:
            yield
        finally:
            _flush()
            os.dup2(own, 1)
            os.close(own)
            caught.seek(0)
            lines = [line for line in caught if not line.startswith(_MARK)]
            if lines:
                with os.fdopen(os.dup(1), "wb") as output:
                    output.writelines(lines)


def _flush() -> None:
    """Write what Python and C keep back of standard output."""
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  # `>&-`
        with suppress(OSError, ValueError):  # lost or closed: told by who prints next
            sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
