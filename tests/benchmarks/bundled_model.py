"""Compile the bundled model cold and warm, and decode with one and with sixteen requests.

    python tests/benchmarks/bundled_model.py

All times are of this machine and its emulator; they say nothing about the chip.
"""

import argparse
import statistics
import tempfile
import time

import ascendfx

REPEATS = 3
TOKENS = 24
PROMPT = [0, 1094, 2205, 668, 411, 262, 1457]


def build(cache: str) -> tuple[float, ascendfx.Engine]:
    """Return the seconds of a compilation with all kernel builds, and the engine."""
    start = time.perf_counter()
    engine = ascendfx.compile(ascendfx.bundled_model(), dtype="float32", kernel_cache=cache)
    return time.perf_counter() - start, engine


def decode_rate(engine: ascendfx.Engine, batch: int) -> float:
    """Return tokens per second of the decode steps alone: two lengths, their difference."""

    def seconds(tokens: int) -> float:
        start = time.perf_counter()
        engine.generate([PROMPT] * batch, max_new_tokens=tokens, stop_at_eos=False)
        return time.perf_counter() - start

    long, short = seconds(TOKENS), seconds(1)
    return batch * (TOKENS - 1) / (long - short)


def main() -> None:
    """Print the figures."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as cache:
        cold, _ = build(cache)
        warm, engine = build(cache)
        print(f"compile with all kernel builds: cold {cold:.1f} s, warm {warm:.1f} s")
        pairs = [(decode_rate(engine, 1), decode_rate(engine, 16)) for _ in range(REPEATS)]
        single, batched = (statistics.median(each) for each in zip(*pairs, strict=True))
        print(
            f"decode: {single:.1f} tokens/s at batch 1, {batched:.1f} tokens/s at batch 16, "
            f"ratio {batched / single:.1f}"
        )


if __name__ == "__main__":
    main()
