"""FlexSmoothQuant: SmoothQuant with both exponents found by trying."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.format import Float64s, Floats
from ascendfx.quant_passes.statistics import InputStatistics
from ascendfx.quant_passes.transforms.scaling import Scaling, stacked_weights
from ascendfx.quant_passes.transforms.smooth_quant import smooth_factors


@dataclass(frozen=True, slots=True)
class Flex:
    """What the search found, which is saved and used again.

    Attributes:
        alpha: Exponent of the inputs.
        beta: Exponent of the weights.
        error: Root mean square of what the quantized output is off, over that of the output; NaN
            without tokens.
        scaling: The factors.
    """

    alpha: float
    beta: float
    error: float
    scaling: Scaling


@dataclass(frozen=True, slots=True)
class FlexSmoothQuant:
    """Factors ``max|X_j|^alpha / max|W_j|^beta`` with the least error of an int8 product.

    First alpha is tried with beta = 1 - alpha, then beta with the best alpha; of equal errors the
    later, larger exponent wins. Weights are quantized per row and inputs per token, both to
    ``absmax / 127``. Channels that no token or no weight uses have factor 1: the reference divides
    0 by 0 there, compares with NaN and returns no smoothing.

    Attributes:
        steps: Steps of each exponent from 0 to 1.

    Raises:
        GraphError: `bad-transform`.

    Source: described by msModelSlim (``flex_smooth/alpha_beta_search.py``).
    """

    steps: int = 20

    name = "flex_smooth_quant"

    def __post_init__(self) -> None:
        if self.steps < 1:
            reason = f"flex_smooth_quant cannot have {self.steps!r} steps"
            raise GraphError("bad-transform", reason, hint="20 steps are usual")

    def search(self, weights: Sequence[Floats], known: InputStatistics) -> Flex:
        """Return the best exponents for inputs that all of ``weights`` read.

        Without tokens there is nothing to compare, and the factors are 1.

        Raises:
            GraphError: `bad-transform`: no weights; `statistics-missing`: no inputs were kept;
                `bad-statistics`; `values-not-finite`.
        """
        stacked = stacked_weights(weights, known)
        if known.inputs is None:
            reason = "flex_smooth_quant needs inputs, and none were kept"
            raise GraphError("statistics-missing", reason, hint="collect with keep > 0")
        if not len(known.inputs) or not known.inputs.any() or not stacked.any():
            return Flex(0.0, 0.0, float("nan"), Scaling(np.ones(known.channels)))
        trial = _Trial(known.inputs, stacked)
        grid = [step / self.steps for step in range(self.steps + 1)]
        alpha = min(reversed(grid), key=lambda each: trial.error(each, 1 - each))
        beta = min(reversed(grid), key=lambda each: trial.error(alpha, each))
        scaling = Scaling(trial.factors(alpha, beta))
        return Flex(alpha, beta, trial.error(alpha, beta), scaling)


class _Trial:
    """Inputs and weights of which products are compared."""

    def __init__(self, inputs: Float64s, weights: Float64s) -> None:
        self._inputs, self._weights = inputs, weights
        self._ends = np.abs(inputs).max(axis=0), np.abs(weights).max(axis=0)
        self._product = inputs @ weights.T
        self._size = float(np.square(self._product).mean())

    def factors(self, alpha: float, beta: float) -> Float64s:
        return smooth_factors(*self._ends, alpha, beta)

    def error(self, alpha: float, beta: float) -> float:
        factors = self.factors(alpha, beta)
        product = int8_rows(self._inputs / factors) @ int8_rows(self._weights * factors).T
        return float(np.sqrt(np.square(product - self._product).mean() / self._size))


def int8_rows(rows: NDArray[Any]) -> Float64s:
    """Return rows rounded to ``absmax / 127`` of each."""
    absmax = np.abs(rows).max(axis=1, keepdims=True)
    scale = np.where(absmax > 0, absmax / 127, 1.0)
    return np.clip(np.rint(rows / scale), -127, 127) * scale
