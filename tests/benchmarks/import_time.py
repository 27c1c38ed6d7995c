"""Time of ``import ascendfx`` against an empty interpreter, and what it brings in.

    python tests/benchmarks/import_time.py

Times are of this machine.
"""

import argparse
import statistics
import subprocess
import sys
import time

PAIRS = 9
IMPORT = "import sys, ascendfx; assert 'torch' not in sys.modules, 'torch was imported'"


def seconds(code: str) -> float:
    """Return how long a fresh interpreter takes to run ``code``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the medians of pairs and their ratio."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    seconds(IMPORT)  # fills the disk cache
    pairs = [(seconds("pass"), seconds(IMPORT)) for _ in range(PAIRS)]
    empty, loaded = (statistics.median(each) for each in zip(*pairs, strict=True))
    print(
        f"import ascendfx: {loaded - empty:.3f} s beside {empty:.3f} s of an empty interpreter, "
        f"ratio {loaded / empty:.2f}; torch was not imported"
    )


if __name__ == "__main__":
    main()
