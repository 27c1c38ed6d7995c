"""What two workers gain in an evaluation of the bundled model, in seconds of the whole command.

    python tests/benchmarks/eval_workers.py [--pairs N] [--rows N] [--window N] [--way WAY]

One worker and two in turns, each with one thread for products, on the first held-out rows beside
the float model; the ratio is the median of those of the pairs. Both write the same JSON, byte by
byte. Seconds are of the clock, with starting and capturing, which no worker shares. Beside them
those of the processor, of the worker that has most: what the clock would say if nothing else ran.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ascendfx import bundled_model

LEAST = 1.6
ROOT = Path(__file__).parents[2]


def seconds(workers: int, words: list[str], folder: Path) -> tuple[float, float]:
    """Return seconds of the clock, and of the processor for the worker that has most."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        every = [*words, "--world-size", str(workers)]
        meeting = ["--meeting", str(Path(name) / "meeting")]
        ranks = [[*meeting, "--rank", str(rank)] for rank in range(workers)]
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONPATH": str(ROOT),
        }
        start = time.perf_counter()
        processes = [
            subprocess.Popen([*every, *rank], stdout=subprocess.DEVNULL, env=environment)
            for rank in (ranks if workers > 1 else [[]])
        ]
        found = [os.wait4(process.pid, 0) for process in processes]
        clock = time.perf_counter() - start
    for process, (_, status, _) in zip(processes, found, strict=True):
        process.returncode = os.waitstatus_to_exitcode(status)
        assert not process.returncode
    return clock, max(used.ru_utime + used.ru_stime for _, _, used in found)


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--way", choices=("data", "pipeline"), default="data")
    chosen = parser.parse_args()
    model = str(bundled_model())
    heldout = (bundled_model() / "texts" / "heldout.jsonl").read_text(encoding="utf-8")
    clocks: list[float] = []
    processors: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows.jsonl"
        rows.write_text("\n".join(heldout.splitlines()[: chosen.rows]), encoding="utf-8")
        words = [sys.executable, "-m", "ascendfx", "eval", model, "--float", model]
        words += ["--quant", "w8a8", "--data", str(rows), "--window", str(chosen.window)]
        words += ["--parallel", chosen.way]
        for pair in range(chosen.pairs):
            files = {n: folder / f"{n}.json" for n in (1, 2)}
            one, two = (seconds(n, [*words, "-o", str(files[n])], folder) for n in (1, 2))
            assert files[1].read_bytes() == files[2].read_bytes()
            clocks.append(one[0] / two[0])
            processors.append(one[1] / two[1])
            print(
                f"pair {pair}: clock {one[0]:.1f} s and {two[0]:.1f} s, {clocks[-1]:.2f}x; "
                f"processor {one[1]:.1f} s and {two[1]:.1f} s, {processors[-1]:.2f}x",
                flush=True,
            )
    print(
        f"two workers ({chosen.way}) beside one, medians of {chosen.pairs}: "
        f"{statistics.median(clocks):.2f}x by the clock, "
        f"{statistics.median(processors):.2f}x by the processor; should be {LEAST}x"
    )


if __name__ == "__main__":
    main()
