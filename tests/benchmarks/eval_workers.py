"""What two workers gain in an evaluation of the bundled model, in seconds of the whole command.

    python tests/benchmarks/eval_workers.py [--pairs N] [--rows N] [--window N] [--way WAY]

One worker and two in turns, each with one thread for products, on the first held-out rows beside
the float model; the ratio is the median of those of the pairs. Both write the same JSON, byte by
byte. With starting and capturing, which no worker shares; the second line leaves out what an
evaluation of one short row takes.
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


def seconds(workers: int, way: str, rows: Path, window: int, output: Path) -> float:
    """Return how long the command takes."""
    model = str(bundled_model())
    words = [sys.executable, "-m", "ascendfx", "eval", model, "--float", model, "--quant", "w8a8"]
    words += ["--data", str(rows), "--window", str(window), "-o", str(output), "--parallel", way]
    words += ["--world-size", str(workers)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--way", choices=("data", "pipeline"), default="data")
    chosen = parser.parse_args()
    heldout = (bundled_model() / "texts" / "heldout.jsonl").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, short = folder / "rows.jsonl", folder / "short.jsonl"
        rows.write_text("\n".join(heldout.splitlines()[: chosen.rows]), encoding="utf-8")
        short.write_text('{"input_ids": [1, 2]}\n', encoding="utf-8")
        start = {
            n: seconds(n, chosen.way, short, chosen.window, folder / "short.json") for n in (1, 2)
        }
        ratios: list[float] = []
        inner: list[float] = []
        for pair in range(chosen.pairs):
            files = {n: folder / f"{n}.json" for n in (1, 2)}
            taken = {n: seconds(n, chosen.way, rows, chosen.window, files[n]) for n in (1, 2)}
            assert files[1].read_bytes() == files[2].read_bytes()
            ratios.append(taken[1] / taken[2])
            inner.append((taken[1] - start[1]) / (taken[2] - start[2]))
            print(
                f"pair {pair}: one worker {taken[1]:.1f} s, two {taken[2]:.1f} s, {ratios[-1]:.2f}x"
            )
    print(
        f"{chosen.way}: whole command, median of {chosen.pairs}: {statistics.median(ratios):.2f}x"
    )
    print(
        f"without starting ({start[1]:.1f} s and {start[2]:.1f} s): "
        f"{statistics.median(inner):.2f}x, should be {LEAST}x"
    )


if __name__ == "__main__":
    main()
