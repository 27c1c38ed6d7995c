"""The command ``ascendfx``: turns errors into exit codes.

Subcommands are imported inside of `main`: what a user or the system does meanwhile is told in a
line, as later.
"""

import contextlib
import errno
import io
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from ascendfx.runtime.cli.end_children import terminated_with_children

if TYPE_CHECKING:
    from ascendfx.runtime.cli.commands import cli as cli  # noqa: PLC0414  # a name of this module

_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def __getattr__(name: str) -> Any:
    """Import the group of subcommands when it is first used."""
    if name != "cli":
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    from ascendfx.runtime.cli.commands import cli  # noqa: PLC0415  # seconds

    return cli


def main() -> None:
    """Run the command line; the only place that turns errors into exit codes.

    A fault that the emulator finds in a kernel is a bug of ours or of the kernel's author; it is
    shown with kernel, core and line, and exits with 3.
    """
    _find_modules_here()
    _print_all_characters()
    try:
        with terminated_with_children():
            _run()
    except KeyboardInterrupt:
        _end("Aborted!", 1)
    except MemoryError as error:
        _end(_out_of_memory(error), 1)
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            raise
        _drop_output()
        _end(_output_lost(error), 1)


def _print_all_characters() -> None:
    """Print what the encoding of a terminal or pipe lacks as an escape: a result is never lost.

    Models write in any script, and names of files need not be text.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _find_modules_here() -> None:
    """Let `ascendfx` find passes of the user in the current folder, as `python -m ascendfx` does.

    The folder comes last: a file of the user that is named as a package hides nothing.
    """
    with contextlib.suppress(OSError):  # the folder may be gone
        here = os.getcwd()  # noqa: PTH109  # as the interpreter asks for it
        if not sys.flags.safe_path and here not in sys.path:
            sys.path.append(here)


def _run() -> None:
    from ascendfx.ir.diagnostic import GraphError  # noqa: PLC0415  # as below
    from ascendfx.runtime.cli.commands import cli  # noqa: PLC0415  # seconds; see above
    from ascendfx.runtime.cli.option_words import error_in_options  # noqa: PLC0415
    from ascendfx.runtime.emulator.error import EmulatorError  # noqa: PLC0415

    try:
        cli()
    except GraphError as error:
        _end(str(error_in_options(error, cli)), 1)
    except EmulatorError as error:
        _end(f"fault in an emulated kernel: {error}", 3)


def _end(message: str, code: int) -> NoReturn:
    """Say why and exit; without standard error the code has to do."""
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  # `2>&-`
        with contextlib.suppress(OSError, ValueError):
            print(message, file=sys.stderr)
    sys.exit(code)


def _out_of_memory(error: MemoryError) -> str:
    from ascendfx.ir.diagnostic import GraphError  # noqa: PLC0415  # see `main`

    return str(
        GraphError(
            "out-of-memory",
            f"this computer has not enough memory: {error or 'none is left'}",
            hint="use smaller limits or shorter texts, or free some memory",
        )
    )


def _output_lost(error: OSError) -> str:
    from ascendfx.ir.diagnostic import GraphError  # noqa: PLC0415  # see `main`

    return str(
        GraphError(
            "not-writable",
            f"standard output cannot be written: {error.strerror}",
            hint="free some space, or send it elsewhere",
        )
    )


def _drop_output() -> None:
    """Keep the interpreter from writing the rest once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
