"""SmoothQuant: outliers of activations go into the weights, by a fixed rule."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.format import Float64s, Floats
from ascendfx.quant_passes.statistics import InputStatistics
from ascendfx.quant_passes.transforms.scaling import Scaling, column_absmax


@dataclass(frozen=True, slots=True)
class SmoothQuant:
    """Factors ``max|X_j|^alpha / max|W_j|^(1 - alpha)``, at least ``least``.

    Attributes:
        alpha: How much of the difficulty goes to the weights; 0.5 is the paper's, 0.9 that of
            msModelSlim's iterative smooth.
        least: Least factor.
        dead: Whether channels that no token or no weight uses keep ``least``, as in the references,
            which shrinks their weights to nothing; else they have factor 1.

    Raises:
        GraphError: `bad-transform`.

    Source: Xiao et al., "SmoothQuant", arXiv 2211.10438, equation 4.
    """

    alpha: float = 0.5
    least: float = 1e-5
    dead: bool = False

    name = "smooth_quant"

    def __post_init__(self) -> None:
        if not (0 <= self.alpha <= 1 and 0 < self.least < float("inf")):
            reason = f"smooth_quant cannot have alpha {self.alpha!r} and least {self.least!r}"
            raise GraphError("bad-transform", reason, hint="alpha is from 0 to 1")

    def search(self, weights: Sequence[Floats], known: InputStatistics) -> Scaling:
        """Return the factors of inputs that all of ``weights`` read.

        Raises:
            GraphError: `bad-transform`: no weights; `bad-statistics`; `values-not-finite`.
        """
        columns = column_absmax(weights, known)
        factors = smooth_factors(known.absmax, columns, self.alpha, 1 - self.alpha)
        if self.dead:
            unused = (known.absmax == 0) | (columns == 0)
            factors = np.where(unused, self.least, factors)
        return Scaling(np.maximum(factors, self.least))


def smooth_factors(inputs: Float64s, weights: Float64s, alpha: float, beta: float) -> Float64s:
    """Return ``inputs ** alpha / weights ** beta``, and 1 where one of them is 0."""
    used = (inputs > 0) & (weights > 0)
    safe = [np.where(used, each, 1.0) for each in (inputs, weights)]
    return safe[0] ** alpha / safe[1] ** beta
