"""A program that nobody has read, in a process of its own with limits.

This is no sandbox: the process may read files and use the network as its user may. It keeps a
program that loops or fills the memory from ending an evaluation, no more.
"""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_BEGIN = """\
import resource, runpy, sys
seconds, memory, size = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
runpy.run_path(sys.argv[1], run_name="__main__")
"""
"""Sets its own limits: between fork and exec of a process with threads hardly anything is safe."""

_SLOW = 10
"""Seconds of the clock for one of the processor: other programs run, too."""


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """What a program may use.

    Attributes:
        seconds: Of processor time; of the clock ten times as many.
        memory_bytes: Of address space.
        file_bytes: Of each file that it writes.
    """

    seconds: int = 5
    memory_bytes: int = 1 << 30
    file_bytes: int = 1 << 20


def run_program(text: str, limits: CodeLimits) -> tuple[bool, str]:
    """Return whether a program ends without an error, and what was wrong.

    It runs isolated (``python -I``), in an empty folder that is deleted afterwards, without our
    environment and without standard input; the processes that it started end with it.
    """
    with tempfile.TemporaryDirectory(prefix="ascendfx-code-") as name:
        folder = Path(name)
        (folder / "program.py").write_text(text, encoding="utf-8", errors="replace")
        numbers = (limits.seconds, limits.memory_bytes, limits.file_bytes)
        with (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603  # that is what the user asked for
                [sys.executable, "-I", "-c", _BEGIN, "program.py", *map(str, numbers)],
                cwd=folder,
                env={"HOME": name, "PATH": os.defpath, "TMPDIR": name},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            try:
                process.wait(timeout=_SLOW * limits.seconds)
            except subprocess.TimeoutExpired:
                return False, f"no end after {_SLOW * limits.seconds} s"
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode == 0:
            return True, ""
        if process.returncode in {-signal.SIGXCPU, -signal.SIGKILL}:
            return False, f"no end after {limits.seconds} s of processor time"
        told = (folder / "errors").read_text(encoding="utf-8", errors="replace")
        lines = told.strip().splitlines()
        return False, lines[-1][:200] if lines else f"ended with {process.returncode}"
