"""Numbers on which a format can go wrong: its values, the middles between them, and around."""

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.formats.format import Float64s

_RANDOM = 2048
_LARGEST = float(np.finfo(np.float32).max)


def format_probes(values: Float64s, seed: int) -> Float64s:
    """Return finite numbers, ascending and without repetition.

    Around each value and each middle of two stand its float32 and float64 neighbours; then numbers
    at and beyond both ends, the smallest float32, zeros of both signs, and random bit patterns,
    which spread over all exponents.

    Args:
        values: The finite values of a format, ascending.
        seed: Of the random ones.
    """
    middles = values[:-1] + (values[1:] - values[:-1]) / 2
    points = np.concatenate([values, middles, [0.0, -0.0]])
    single = points.astype(np.float32)
    ends = np.array([values[0], values[-1]])
    beyond = np.concatenate([ends * factor for factor in (1.0625, 1.25, 1.5, 1.9375, 2.0, 64.0)])
    random = np.random.default_rng(seed).integers(0, 1 << 32, _RANDOM, dtype=np.uint32)
    probes = np.concatenate(
        [
            *(points, single, *_neighbours(single), *_neighbours(points)),
            *(beyond, beyond.astype(np.float32), *_neighbours(beyond)),
            *([_LARGEST, -_LARGEST, 2.0**-149, -(2.0**-149)], _as_finite(random)),
            np.random.default_rng(seed)
            .uniform(1.25 * ends[0], 1.25 * ends[1], _RANDOM)
            .astype(np.float32),
        ]
    )
    return np.unique(probes[np.isfinite(probes)])


def _neighbours(
    numbers: NDArray[np.float32] | Float64s,
) -> tuple[NDArray[np.float32] | Float64s, NDArray[np.float32] | Float64s]:
    infinity = numbers.dtype.type(np.inf)
    return np.nextafter(numbers, -infinity), np.nextafter(numbers, infinity)


def _as_finite(bits: NDArray[np.uint32]) -> Float64s:
    quiet = np.where((bits & 0x7F800000) == 0x7F800000, bits & ~np.uint32(0x40000000), bits)
    return quiet.astype(np.uint32).view(np.float32).astype(np.float64)
