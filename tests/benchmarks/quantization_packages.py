"""Error and speed of our weight algorithms beside those of packages, on the same layer.

    python tests/benchmarks/quantization_packages.py [SIZE] [--only NAME ...] [--rounds N]

A layer of SIZE x SIZE (512) with four loud input channels and 8 SIZE correlated tokens; the error
is that of the output for 2 SIZE tokens that neither side has seen. Both sides go from tokens and
weight to what the codes stand for, one thread each; times are of the processor, in turns, the
median of the ratios. Each package runs in a process of its own; one that is not there or does not
run is named, with the reason. They pin other versions than we have of what they need, so they are
installed without that, beside ours:

    DISABLE_CUDA=1 .venv/bin/pip install --no-deps --no-build-isolation --target build/packages \\
        -r tests/benchmarks/parts/packages/requirements.txt
"""

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

PLACE = Path(__file__).parents[2] / "build" / "packages"
PACKAGES = ("llmcompressor", "gptqmodel", "hqq", "auto_round")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run_here(package: str, size: int, rounds: int) -> None:
    """Compare with a package in this process."""
    sys.path.append(str(PLACE))
    cases = importlib.import_module(f"parts.packages.with_{package}")
    side_by_side = importlib.import_module("parts.packages.side_by_side")
    side_by_side.compare(package, cases.pairs(), side_by_side.made_layer(size), rounds)


def run_apart(package: str, arguments: list[str]) -> None:
    """Compare in a process of its own, and print what it says of the comparison, or why not."""
    command = [sys.executable, __file__, *arguments, "--here", package]
    child = subprocess.run(
        command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=False
    )
    for line in child.stdout.splitlines():
        if line.startswith(f"{package} "):  # some have much else to say
            print(line, flush=True)
    if child.returncode:
        told = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
        print(f"{package} skipped: {told[-1]}", flush=True)


def main() -> None:
    """Print a line per package and format, and a line per package that did not run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("size", type=int, nargs="?", default=512)
    parser.add_argument("--only", nargs="+", choices=PACKAGES, default=PACKAGES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", choices=PACKAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.size < 128 or options.size % 128:
        parser.error("SIZE is a multiple of 128")
    if options.here:
        run_here(options.here, options.size, options.rounds)
        return
    for package in options.only:
        run_apart(package, [str(options.size), "--rounds", str(options.rounds)])


if __name__ == "__main__":
    main()
