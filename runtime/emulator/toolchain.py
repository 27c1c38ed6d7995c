"""The host compiler: finding it, running it, and saying what is missing."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError

COMMON_FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fno-gnu-unique",  # two libraries with other checks must not share their inline variables
    "-ffp-contract=off",  # the same bits with and without FMA
    "-fno-strict-aliasing",
    "-fvisibility=default",
    "-pipe",
)
KERNEL_FLAGS = (
    *COMMON_FLAGS,
    "-O1",  # what computes is in the library; compiling takes two thirds of the time of -O2
    "-w",
    "-fstack-clash-protection",  # a large frame must not reach beyond the guard of its stack
)
KERNEL_LINK_FLAGS = (
    "-shared",
    "-Wl,--no-undefined",
    "-Wl,-Bsymbolic",  # a kernel may be called `poll`; the C library has a function of that name
)
RUNTIME_FLAGS = (*COMMON_FLAGS, "-O3", "-fno-math-errno", "-fno-trapping-math")
_NO_SPACE = "No space left on device"
_OF_HOST = (
    "internal compiler error",
    "terminated program",
    "File too large",
    "File size limit",
    "memory exhausted",
    "out of memory",
    "Cannot allocate memory",
    "Too many open files",
    "Resource temporarily unavailable",
    "Input/output error",
)
"""What g++ and its parts say when the computer, not the text, ends them."""
_SHOWN_LINES = 12
_LONGEST_LINE = 300
_SHELL_SIGNAL = 128
"""What a shell adds to the number of a signal."""


def find_compiler() -> str:
    """Return the path of ``g++``.

    Raises:
        GraphError: There is none.
    """
    path = shutil.which("g++")
    if path is None:
        raise GraphError(
            code="no-compiler",
            reason="the emulator compiles kernels for this computer, but `g++` is not installed",
            hint="install it, for example with `apt-get install g++`",
        )
    return path


def compiler_version(compiler: str) -> str:
    """Return the full version text, part of every cache key."""
    result = subprocess.run([compiler, "-v"], capture_output=True, text=True, check=False)  # noqa: S603
    return result.stderr.strip().splitlines()[-1] if result.stderr else "unknown"


def run_compiler(compiler: str, arguments: Sequence[str], directory: Path, subject: str) -> None:
    """Run ``compiler`` in ``directory``.

    Args:
        compiler: Path of the compiler.
        arguments: Its arguments.
        directory: Working directory; also holds temporary files.
        subject: What is compiled, for the message.

    Raises:
        GraphError: It failed; the message quotes the first lines of its output. Or it was stopped,
            which is no fault of what it compiles.
    """
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(directory)}
    try:
        result = subprocess.run(  # noqa: S603
            [compiler, *arguments],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise _stopped(compiler, subject, f"it cannot be started: {error.strerror}") from error
    if result.returncode == 0:
        return
    output = result.stderr.strip()
    if _NO_SPACE in output:
        raise cache_not_writable(directory, _NO_SPACE)
    if why := _reason_of_host(result.returncode, output):
        raise _stopped(compiler, subject, why)
    errors = [line for line in output.splitlines() if ": error:" in line or "undefined" in line]
    raise GraphError(
        code="kernel-does-not-compile",
        reason=f"{subject}: the host compiler refuses it (exit code {result.returncode})",
        excerpt="\n   | ".join((errors or output.splitlines())[:_SHOWN_LINES]),
        notes=(f"compiler: {compiler}",),
        hint="the emulator accepts the documented Ascend C calls with the documented argument "
        "types only; see codegen/ascendc/emulator/README.md",
    )


def wrote_nothing(compiler: str, subject: str) -> GraphError:
    """Return the error for a compiler that reports success and leaves no file."""
    return _stopped(compiler, subject, "it wrote no file, and no message")


def _reason_of_host(code: int, output: str) -> str:
    """Return why the host ended a compiler; empty if it ended by itself."""
    if code < 0:
        return f"killed by {_signal_name(-code)}"
    for line in output.splitlines():
        if any(each in line for each in _OF_HOST):
            return line.strip()[:_LONGEST_LINE]
    by_shell = code > _SHELL_SIGNAL and not output
    return f"killed by {_signal_name(code - _SHELL_SIGNAL)}" if by_shell else ""


def _signal_name(number: int) -> str:
    known = number in {each.value for each in signal.Signals}
    return signal.Signals(number).name if known else f"signal {number}"


def _stopped(compiler: str, subject: str, why: str) -> GraphError:
    return GraphError(
        code="compiler-stopped",
        reason=f"{subject}: the host compiler did not come to its end: {why}",
        notes=(f"compiler: {compiler}",),
        hint="it is no fault of the kernel: free memory, look at the limits (`ulimit -a`), and run "
        "again",
    )


def cache_not_writable(directory: Path, why: str) -> GraphError:
    """Return the one error for a cache that cannot be written."""
    return GraphError(
        code="cache-not-writable",
        reason=f"compiled kernels cannot be stored under {directory}: {why}",
        hint="free some space or name another folder: `kernel_cache` or `XDG_CACHE_HOME`",
    )
