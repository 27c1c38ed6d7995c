"""Synthetic layers of the ordering study: 128 x 256, outlier channels, two laws of weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightAlgorithm,
    WeightSpec,
)
from ascendfx.quant_passes.statistics import InputStatistics, statistics_of

OUTLIERS = (60, 30, 20, 10)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    weight: NDArray[np.float64]
    known: InputStatistics
    held_out: NDArray[np.float64]

    def quantized(self, algorithm: WeightAlgorithm, spec: WeightSpec) -> QuantizedWeight:
        return algorithm.quantize(self.weight, spec, self.known)

    def calibration_error(self, decoded: NDArray[Any]) -> float:
        change = decoded - self.weight
        assert self.known.moments is not None
        return float(((change @ self.known.moments) * change).sum()) / self.known.tokens

    def held_out_error(self, decoded: NDArray[Any]) -> float:
        return float(np.square(self.held_out @ (decoded - self.weight).T).mean())


def layer(seed: int, *, heavy: bool, tokens: int = 1024, out: int = 128, width: int = 256) -> Layer:
    """Return a layer: normal weights, or these times a log-normal number (sigma 0.6)."""
    random = np.random.default_rng(seed)
    weight = 0.02 * random.standard_normal((out, width))
    if heavy:
        weight *= np.exp(0.6 * random.standard_normal(weight.shape))
    mix = np.eye(width) + random.standard_normal((width, width)) / np.sqrt(width)
    gain = np.ones(width)
    gain[random.choice(width, len(OUTLIERS), replace=False)] = OUTLIERS
    calibration, held_out = (
        (random.standard_normal((count, width)) @ mix) * gain for count in (tokens, 1024)
    )
    return Layer(weight, statistics_of(calibration), held_out)
