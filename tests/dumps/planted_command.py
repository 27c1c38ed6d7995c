"""The command line on a dump with a planted mistake."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own; the module of the mistakes is trusted."""
    return subprocess.run(
        [sys.executable, "-m", "ascendfx", *map(str, words), "--allow-code"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
