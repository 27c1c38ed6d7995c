"""Time to encode, decode and quantize in each number format, beside `ml_dtypes` and a copy.

    python tests/benchmarks/number_formats.py [VALUES]

Times are of this machine.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendfx import quantization as q
from ascendfx.quant_passes.formats.format import Format

ROUNDS = 5
REFERENCES = {
    "float8_e4m3fn-ieee": ml_dtypes.float8_e4m3fn,
    "float8_e5m2-ieee": ml_dtypes.float8_e5m2,
}
COPIED = ("hifloat8", "hifloat8-hybrid", "nf4", "int4", "int8")
WEIGHTS = {
    "int8": q.PerChannel(),
    "int4": q.PerGroup(128),
    "float8_e4m3fn": q.PerBlock(128, 128),
}


def beside(first: Callable[[], object], second: Callable[[], object], count: int) -> str:
    """Return the medians of two sides run in turn, in ns of processor time per value."""
    pairs = [(_seconds(first), _seconds(second)) for _ in range(ROUNDS)]
    ours, other = (1e9 / count * statistics.median(each) for each in zip(*pairs, strict=True))
    return f"{ours:6.2f} beside {other:6.2f} ns per value, ratio {ours / other:5.2f}"


def _seconds(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def _format(name: str) -> Format:
    form = q.format_named(name)
    assert isinstance(form, Format)
    return form


def beside_ml_dtypes(name: str, numbers: NDArray[np.float32]) -> None:
    """Print the time to encode and to decode to float64, after a look at the codes."""
    form, reference = _format(name), REFERENCES[name]
    codes, narrow = form.encode(numbers), numbers.astype(reference)
    assert np.array_equal(narrow.view(np.uint8), codes)
    encode = beside(partial(form.encode, numbers), partial(numbers.astype, reference), numbers.size)
    decode = beside(partial(form.decode, codes), partial(narrow.astype, np.float64), numbers.size)
    print(f"encode {name}: {encode} (ml_dtypes)\ndecode {name}: {decode} (ml_dtypes)")


def main() -> None:
    """Print a line per format and step."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("values", nargs="?", type=float, default=1 << 22, help="how many numbers")
    count = int(parser.parse_args().values)
    rows = np.random.default_rng(0).standard_normal((count // 4096, 4096), np.float32)
    numbers = rows * np.float32(10)
    for name in REFERENCES:
        beside_ml_dtypes(name, numbers)
    for name in COPIED:
        line = beside(partial(_format(name).encode, numbers), numbers.copy, numbers.size)
        print(f"encode {name}: {line} (a copy)")
    for name, granularity in WEIGHTS.items():
        quantize = partial(q.round_to_nearest, rows, _format(name), granularity)
        print(f"{name} weights {granularity}: {beside(quantize, rows.copy, rows.size)} (a copy)")
    bits = rows.astype(ml_dtypes.bfloat16).view(np.uint16)
    streams = q.DFloat11().encode(bits)
    assert np.array_equal(q.DFloat11().decode(streams), bits)
    line = beside(
        partial(q.DFloat11().encode, bits), partial(q.DFloat11().decode, streams), bits.size
    )
    print(f"DFloat11 to {8 * streams.bytes / bits.size:.2f} bits: encode {line} (decode)")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
