"""A factor per channel: inputs are divided by it, weights multiplied."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.weight_algorithm import require_weight
from ascendfx.quant_passes.formats.format import Float64s, Floats
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """``x W^T = (x / s) (W s)^T`` for factors ``s`` of the input channels.

    Attributes:
        factors: ``[in]``, positive and finite.

    Raises:
        GraphError: `bad-transform`: a factor is not positive and finite.
    """

    factors: Float64s

    def __post_init__(self) -> None:
        fine = np.isfinite(self.factors) & (self.factors > 0)
        if self.factors.ndim != 1 or not fine.all():
            reason = f"factors {list(self.factors.shape)} are not all positive and finite"
            raise GraphError("bad-transform", reason, hint="channels without inputs take factor 1")

    def inputs(self, inputs: NDArray[Any]) -> Float64s:
        """Return the inputs ``[*, in]`` over the factors."""
        return inputs / self.factors

    def weight(self, weight: NDArray[Any]) -> Float64s:
        """Return a weight ``[out, in]`` times the factors."""
        return weight * self.factors

    def statistics(self, known: InputStatistics) -> InputStatistics:
        """Return the statistics of the inputs over the factors."""
        moments, kept, s = known.moments, known.inputs, self.factors
        return replace(
            known,
            minimum=known.minimum / s,
            maximum=known.maximum / s,
            mean_abs=known.mean_abs / s,
            moments=None if moments is None else moments / np.outer(s, s),
            inputs=None if kept is None else kept / s,
        )


def column_absmax(weights: Sequence[Floats], known: InputStatistics) -> Float64s:
    """Return the largest magnitude per input channel over all readers of the same inputs.

    Raises:
        GraphError: `bad-transform`: no weights; `bad-statistics`: of another width; `bad-weight`;
            `values-not-finite`.
    """
    stacked = stacked_weights(weights, known)
    return np.abs(stacked).max(axis=0, initial=0)


def stacked_weights(weights: Sequence[Floats], known: InputStatistics) -> Float64s:
    """Return the weights of all readers of the same inputs, ``[out of all, in]``.

    Raises:
        GraphError: As `column_absmax`.
    """
    if not weights:
        reason = "inputs without a reader have no weights to scale"
        raise GraphError("bad-transform", reason, hint="give the weights of all readers")
    numbers = [require_weight(each) for each in weights]
    for each in numbers:
        if each.shape[1] != known.channels:
            reason = f"inputs of {known.channels} channels do not fit a weight {list(each.shape)}"
            raise GraphError("bad-statistics", reason, hint="a weight is [out, in]")
    return np.concatenate(numbers)
