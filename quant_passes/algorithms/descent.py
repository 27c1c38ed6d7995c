"""The descent of SSZW over some rows of a weight."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.algorithms.adam import adam
from ascendfx.quant_passes.algorithms.candidate import Candidate
from ascendfx.quant_passes.algorithms.row_units import row_units
from ascendfx.quant_passes.algorithms.straight_through import Rounded, rounded
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec, require_integer
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.rounded_to import rounded_to


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """What does not change while rows go down.

    Attributes:
        spec: What the rows become.
        affine: Conventions of scales and zero points.
        moments: ``X^T X``, damped, over its mean diagonal, ``[in, in]``, float32.
        steps: How many.
        rate: The first learning rate.
    """

    spec: WeightSpec
    affine: Affine
    moments: NDArray[np.float32]
    steps: int
    rate: float

    def run(self, weights: Float64s, starts: list[Candidate]) -> Candidate:
        """Return the best point that each row has visited, the starts included."""
        shape, unit = weights.shape, row_units(weights)
        best, least = starts[0], np.full(len(weights), np.inf)
        for start in starts:
            errors = self._losses((start.decoded(shape) - weights) / unit)[0]
            best, least = best.where(errors < least, start), np.minimum(errors, least)
        logarithm = np.zeros(starts[0].scale.shape)
        origin = starts[0].scale.astype(np.float64)
        zero = None if starts[0].zero is None else starts[0].zero.astype(np.float64)
        moves_zero = zero is not None and not self.spec.rule.symmetric
        offset = np.zeros(shape)
        states = [adam(logarithm), adam(logarithm), adam(offset)]
        for step in range(self.steps):
            scale = rounded_to(origin * np.exp(logarithm), self.affine.stored)
            whole = self._stored_zero(zero)
            made = self._rounded(weights, scale, whole, offset)
            errors, slope = self._losses((made.decoded - weights) / unit)
            slope /= unit
            here = Candidate(made.codes, scale, whole, self.affine.granularity)
            best, least = best.where(errors < least, here), np.minimum(errors, least)
            wide = self._spread(scale.astype(np.float64), shape)
            sums = [slope * made.by_scale * wide, slope * np.where(made.inside, 0, -wide)]
            gradients = [self.affine.granularity.reduce(each, np.add) for each in sums]
            gradients.append(slope * np.where(made.inside, wide, 0))
            states = [state.after(by) for state, by in zip(states, gradients, strict=True)]
            rate = self.rate * (1 - step / self.steps)
            logarithm = logarithm - rate * states[0].direction()
            if moves_zero and zero is not None:
                zero = zero - rate * states[1].direction()
            offset = np.clip(offset - rate * states[2].direction(), -0.5, 0.5)
        return best

    def _stored_zero(self, zero: Float64s | None) -> NDArray[Any] | None:
        if zero is None:
            return None
        kept = np.rint(zero) if self.spec.rule.round_zero else zero
        return rounded_to(kept, self.affine.stored)

    def _rounded(
        self,
        weights: Float64s,
        scale: NDArray[Any],
        zero: NDArray[Any] | None,
        offset: Float64s,
    ) -> Rounded:
        wide = self._spread(scale.astype(np.float64), weights.shape)
        if zero is not None:
            zero = self._spread(zero.astype(np.float64), weights.shape)
        form = require_integer("sszw", self.spec.format)
        first = self.affine.zero_first
        return rounded(weights, wide, zero, form, offset=offset, zero_first=first)

    def _losses(self, change: Float64s) -> tuple[Float64s, Float64s]:
        """Return the loss of each row, and its derivative by each number.

        The product, which is most of the work, is in float32: a descent needs no more, and what it
        finds is compared with the starts in float64.
        """
        product = change.astype(np.float32) @ self.moments
        return np.einsum("oi,oi->o", product, change), 2.0 * product.astype(np.float64)

    def _spread(self, scales: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        return self.affine.granularity.spread(scales, shape)
