"""Weights per second of each weight algorithm, and the output error beside min-max.

    python tests/benchmarks/weight_algorithms.py [SIZE] [--tokens N] [--only NAME ...]

A weight of SIZE x SIZE (512; 4096 at most) with normal weights, in groups of 128, to four bits;
inputs have four outlier channels. Times are of the wall clock, once each.
"""

import argparse
import time

import numpy as np

from ascendfx import quantization as q

STEPS = 20
"""Of the 200 of algorithms that learn; their time is told for all."""
LEARNING = {"sszw": q.Sszw(steps=STEPS), "learned_clipping": q.LearnedClipping(steps=STEPS)}
CHANGED = {**LEARNING, "gptq": q.Gptq(tokens_per_input=0)}
OURS = ("min_max", "percentile", "mean_square", "ssz", "hqq", "qserve", "lookup_table", "gptq")


def measured(name: str, weight: np.ndarray, known: q.InputStatistics) -> tuple[float, float]:
    """Return seconds and the squared error of the output."""
    algorithm = CHANGED.get(name) or q.algorithm_named(name)
    form = q.format_named("uint4" if name == "qserve" else "int4")
    assert isinstance(form, q.Format)
    spec = q.WeightSpec(form, q.PerGroup(min(128, len(weight))))
    start = time.perf_counter()
    found = algorithm.quantize(weight, spec, known)
    seconds = time.perf_counter() - start
    change = found.tensor.decode().astype(np.float64) - weight
    assert known.moments is not None
    return seconds, float(((change @ known.moments) * change).sum())


def main() -> None:
    """Print a line per algorithm."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("size", type=int, nargs="?", default=512)
    parser.add_argument("--tokens", type=int, help="calibration tokens, 4 SIZE if left out")
    parser.add_argument("--only", nargs="+", choices=(*OURS, *LEARNING))
    options = parser.parse_args()
    if not 128 <= options.size <= 4096 or options.size % 128:
        parser.error("SIZE is a multiple of 128 from 128 to 4096")
    random = np.random.default_rng(0)
    weight = 0.02 * random.standard_normal((options.size, options.size), np.float32)
    inputs = random.standard_normal((options.tokens or 4 * options.size, options.size), np.float32)
    inputs[:, : 4 * 17 : 17] *= (60, 30, 20, 10)
    start = time.perf_counter()
    known = q.statistics_of(inputs)
    print(f"statistics of {known.tokens} tokens: {time.perf_counter() - start:.2f} s")
    usual = measured("min_max", weight, known)[1]
    for name in options.only or (*OURS, *LEARNING):
        seconds, error = measured(name, weight, known)
        steps = f", {STEPS} of 200 steps" if name in LEARNING else ""
        rate = weight.size / seconds / 1e6
        print(f"{name:17} {rate:8.2f} M weights/s, error {error / usual:.3f} of min_max{steps}")


if __name__ == "__main__":
    main()
