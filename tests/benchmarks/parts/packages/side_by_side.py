"""Two implementations on one layer: error of outputs not seen, and processor time, in pairs."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Weight = NDArray[np.float64]
"""What codes stand for, ``[out, in]``."""


@dataclass(frozen=True)
class Layer:
    """A weight with four loud input channels, and correlated tokens.

    Attributes:
        weight: ``[n, n]``, float32.
        seen: Tokens to calibrate with, ``[8 n, n]``, float32.
        unseen: Tokens to judge with, ``[2 n, n]``, float32.
    """

    weight: NDArray[np.float32]
    seen: NDArray[np.float32]
    unseen: NDArray[np.float32]


@dataclass(frozen=True)
class Pair:
    """The same algorithm, format and options on both sides.

    Attributes:
        what: Algorithm, format and options.
        theirs: From tokens and weight to what the codes stand for.
        ours: Likewise.
    """

    what: str
    theirs: Callable[[Layer], Weight]
    ours: Callable[[Layer], Weight]


def made_layer(size: int, seed: int = 0) -> Layer:
    """Return a layer; a quarter of the variance of tokens is shared by all channels' mixtures."""
    random = np.random.default_rng(seed)
    weight = 0.02 * random.standard_normal((size, size), np.float32)
    mixture = random.standard_normal((size // 4, size), np.float32) / np.float32(size / 4) ** 0.5

    def tokens(count: int) -> NDArray[np.float32]:
        shared = random.standard_normal((count, size // 4), np.float32) @ mixture
        found = shared + random.standard_normal((count, size), np.float32)
        found[:, : 4 * 17 : 17] *= np.float32([60, 30, 20, 10])
        return found

    return Layer(weight, tokens(8 * size), tokens(2 * size))


def compare(package: str, pairs: list[Pair], layer: Layer, rounds: int) -> None:
    """Print both ratios of each pair; the first round warms up."""
    for pair in pairs:
        times: list[float] = []
        errors = [0.0, 0.0]
        for _ in range(rounds + 1):
            spent = []
            for side, run in enumerate((pair.theirs, pair.ours)):
                start = time.process_time()
                found = run(layer)
                spent.append(time.process_time() - start)
                off = layer.unseen @ (found - layer.weight).astype(np.float64).T
                errors[side] = float(np.square(off).mean())
            times.append(spent[0] / spent[1])
        print(
            f"{package} {pair.what}: error {errors[1] / errors[0]:.3f} of theirs, "
            f"speed {statistics.median(times[1:]):.2f} x theirs",
            flush=True,
        )
