"""Compile with dumps and follow one question through the passes: what is cached per token?

python examples/02_read_the_dumps.py [FOLDER]
"""

import json
import sys
import tempfile
from pathlib import Path

import ascendfx
from ascendfx.ir.text.parser import parse_program


def main(folder: Path) -> None:
    """Compile, then read what the passes left behind."""
    # The reference executor needs no kernels: what takes time here is the capture.
    ascendfx.compile(ascendfx.bundled_model(), executor="reference", dump_dir=folder)
    for stage in ("serving", "decode", "prefill"):
        for entry in json.loads((folder / stage / "index.json").read_text(encoding="utf-8")):
            counts = ", ".join(f"{n} {what}" for what, n in entry["statistics"].items())
            print(f"{stage}/{entry['file']}: {counts or 'no change'}")

    # Every dump is a program again: parse it, look at it, run other passes on it.
    last = sorted((folder / "decode").glob("*.ir"))[-1]
    program = parse_program(last.read_text(encoding="utf-8"), file=last.name)
    caches = {n: str(k) for n, k in program.main.input_types.items() if n.startswith("cache.0.")}
    print("caches of the first layer:", caches)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch))
