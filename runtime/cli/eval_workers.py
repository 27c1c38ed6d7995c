"""The processes of ``ascendfx eval --world-size N``: the same command again, with a number each."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError

_PATIENCE = 20
"""Seconds in which the others end after one has failed: the first one says why."""
_BLAS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def run_workers(size: int, arguments: Sequence[str]) -> int:
    """Run a command in so many processes and return the exit code.

    Each has ``--rank`` and ``--meeting`` behind the arguments, one thread of BLAS, and for
    everything else as many threads as there are cores for it. The first process prints.

    Raises:
        GraphError: `worker-ended`: a process was killed.
    """
    threads = str(max(1, (os.cpu_count() or 1) // size))
    fixed = dict.fromkeys(_BLAS, "1") | {"OMP_NUM_THREADS": threads}
    environment = {**os.environ, **fixed, "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory(prefix="ascendfx-eval-") as folder:
        meeting = str(Path(folder) / "meeting")
        words = [sys.executable, "-m", "ascendfx", *arguments, "--meeting", meeting]
        processes = [
            subprocess.Popen([*words, "--rank", str(rank)], env=environment)  # noqa: S603  # ours
            for rank in range(size)
        ]
        try:
            return wait(processes)
        finally:
            for each in processes:
                each.kill()
                each.wait()


def wait(processes: Sequence["subprocess.Popen[bytes]"]) -> int:
    """Return the exit code when all have ended.

    Raises:
        GraphError: `worker-ended`; the others are killed then.
    """
    with ThreadPoolExecutor(len(processes)) as pool:
        ranks = {pool.submit(each.wait): rank for rank, each in enumerate(processes)}
        for done in as_completed(ranks):
            code = done.result()
            if code > 0:
                _end(processes)
            if code < 0:
                for each in processes:  # they wait for it, and have nothing to say
                    each.kill()
                raise GraphError(
                    "worker-ended",
                    f"worker {ranks[done]} of {len(processes)} was ended by signal {-code}",
                    hint="if the system did it for want of memory, take fewer workers, or "
                    "--parallel pipeline",
                )
    return max(each.returncode for each in processes)


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    for each in processes:
        try:
            each.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            each.kill()
