"""AWQ: channels with large inputs get finer weights, as much as helps the output."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.output_error import output_squared_errors
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm, WeightSpec
from ascendfx.quant_passes.formats.format import Float64s, Floats
from ascendfx.quant_passes.statistics import InputStatistics
from ascendfx.quant_passes.transforms.scaling import Scaling, stacked_weights

_LEAST = 1e-4


@dataclass(frozen=True, slots=True)
class AwqResult:
    """What the search found, which is saved and used again.

    Attributes:
        ratio: Exponent of the inputs; 0 is no scaling.
        errors: Mean square of what the output is off, for each ratio tried.
        scaling: The factors.
    """

    ratio: float
    errors: tuple[float, ...]
    scaling: Scaling


@dataclass(frozen=True, slots=True)
class Awq:
    """Factors ``mean|X_j|^r`` over the root of their largest times their smallest.

    ``r`` goes from 0 below 1; that with the least error of ``Q(W s) / s`` on the calibration tokens
    is taken, the first if some are equal. Since 0 is tried, it is never worse there than rounding
    alone.

    Attributes:
        steps: How many exponents.
        algorithm: What quantizes the weights; data-free.
        dead: Whether channels without inputs take part with the least factor, 1e-4, as in the
            reference, which inflates all others; else their factor is 1 and does not count.

    Raises:
        GraphError: `bad-transform`.

    Source: Lin et al., "AWQ", arXiv 2306.00978, section 3.2, and its published code.
    """

    steps: int = 20
    algorithm: WeightAlgorithm = MIN_MAX
    dead: bool = False

    name = "awq"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.algorithm.needs:
            reason = f"awq cannot have {self.steps!r} steps with {self.algorithm.name}"
            raise GraphError("bad-transform", reason, hint="take at least one, and a data-free one")

    def search(
        self, weights: Sequence[Floats], spec: WeightSpec, known: InputStatistics
    ) -> AwqResult:
        """Return the best exponent for inputs that all of ``weights`` read.

        Without tokens there is nothing to compare, and the factors are 1.

        Raises:
            GraphError: `bad-transform`: no weights; `statistics-missing`: no moments;
                `bad-statistics`; `values-not-finite`; of formats and granularities.
        """
        stacked = stacked_weights(weights, known)
        if known.moments is None:
            reason = "awq needs moments of the inputs"
            raise GraphError("statistics-missing", reason, hint="collect them in calibration")
        if not known.tokens or not known.moments.any():
            return AwqResult(0.0, (), Scaling(np.ones(known.channels)))
        ratios = [step / self.steps for step in range(self.steps)]
        errors: list[float] = []
        for ratio in ratios:
            factors = self._factors(known, ratio)
            found = self.algorithm.quantize(stacked * factors, spec).tensor.decode()
            change = found / factors - stacked
            off = output_squared_errors(change, known.moments).sum()
            errors.append(float(off) / known.tokens / len(stacked))
        ratio = ratios[int(np.argmin(errors))]
        return AwqResult(ratio, tuple(errors), Scaling(self._factors(known, ratio)))

    def _factors(self, known: InputStatistics, ratio: float) -> Float64s:
        live = known.mean_abs > 0
        factors = np.maximum(known.mean_abs**ratio, _LEAST)
        counted = factors if self.dead else factors[live]
        scaled = factors / np.sqrt(counted.max() * counted.min())
        return scaled if self.dead else np.where(live, scaled, 1.0)
