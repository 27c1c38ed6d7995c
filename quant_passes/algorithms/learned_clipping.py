"""Learned clipping of weights: how much of each range to give up, by gradient descent."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.adam import adam
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.sszw import require_scales_of_rows
from ascendfx.quant_passes.algorithms.straight_through import rounded
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_integer,
    require_option,
    require_statistics,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Float64s, Floats
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import affine_of
from ascendfx.quant_passes.statistics import InputStatistics

_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Clipping:
    """How much of the range of each scale is kept, as logits ``[out, scales]``.

    The range is ``sigmoid(low) min`` to ``sigmoid(high) max``.
    """

    low: Float64s
    high: Float64s


@dataclass(frozen=True, slots=True)
class LearnedClipping:
    """Ranges ``sigmoid(low) min`` to ``sigmoid(high) max``, learned on the output of the layer.

    The loss is the mean square of what the output is off, Adam learns both logits of each scale,
    and rounding counts as the identity in derivatives. With an asymmetric rule and groups these are
    the weights of OmniQuant; with channels, symmetric or not, they are Huawei's LWC, which clamps
    the weight and quantizes it then: the same codes, since what is beyond the range saturates.

    Logits start at 4, which clips 1.8 % at once and can be worse than min-max. A row keeps the best
    of all steps and of min-max itself.

    Attributes:
        steps: Steps of Adam; each costs a product ``[out, in] x [in, in]``.
        rate: Learning rate.
        start: First logits.
        keep_best: Whether the best is kept, else the last, as OmniQuant does.

    Raises:
        GraphError: `bad-algorithm`.

    Source: Shao et al., "OmniQuant", arXiv 2308.13137, section 3.2; LWC of amct for DeepSeek-V3.2.
    """

    steps: int = 200
    rate: float = 1e-2
    start: float = 4.0
    keep_best: bool = True

    name = "learned_clipping"
    needs = frozenset({"moments"})

    def __post_init__(self) -> None:
        require_option(self.name, "steps", self.steps, known=self.steps >= 0)
        require_option(self.name, "rate", self.rate, known=0 < self.rate < float("inf"))
        require_option(self.name, "start", self.start, known=abs(self.start) < float("inf"))

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; `bad-format`: codes are no integers;
                `bad-granularity`: a scale is shared by rows; `statistics-missing`;
                `bad-statistics`.
        """
        numbers = require_weight(weight)
        form = require_integer(self.name, spec.format)
        known = require_statistics(self, numbers, inputs)
        assert known.moments is not None, "it is among the needs"
        plain = MinMax().quantize(numbers, spec)
        if not known.tokens or not known.moments.any():
            what = "no tokens" if not known.tokens else "all inputs were zero"
            remark = Remark(f"{self.name}: {what}; min_max took over")
            return QuantizedWeight(plain.tensor, (remark, *plain.remarks))
        _, clipped = self.learn(numbers, spec, known)
        codes = clipped.quantize(numbers, form)
        return QuantizedWeight(QuantizedTensor(codes, clipped, form), plain.remarks)

    def learn(
        self, weight: Float64s, spec: WeightSpec, inputs: InputStatistics
    ) -> tuple[Clipping, Affine]:
        """Return the logits and the scales that follow from them.

        Where min-max is best, the logits are infinite.

        Raises:
            GraphError: As `quantize`.
        """
        require_scales_of_rows(self.name, spec)
        known = require_statistics(self, weight, inputs)
        assert known.moments is not None, "it is among the needs"
        moments = known.moments / max(1, known.tokens) / max(1, len(weight))
        shape = spec.granularity.scale_shape(weight.shape)
        clipping = Clipping(np.full(shape, np.inf), np.full(shape, np.inf))
        for top in range(0, len(weight), _ROWS):
            rows = slice(top, top + _ROWS)
            found = self._descent(weight[rows], spec, moments)
            clipping.low[rows], clipping.high[rows] = found.low, found.high
        return clipping, _affine(weight, spec, clipping)

    def _descent(self, weights: Float64s, spec: WeightSpec, moments: Float64s) -> Clipping:
        form = require_integer(self.name, spec.format)
        ends = _ends(weights, spec)
        here = Clipping(*(np.full(ends[0].shape, float(self.start)) for _ in range(2)))
        best = Clipping(*(np.full(ends[0].shape, np.inf) for _ in range(2)))
        least = self._losses(weights, spec, best, moments, form)[0]
        states = [adam(here.low), adam(here.high)]
        for step in range(self.steps + 1):
            errors, by_scale = self._losses(weights, spec, here, moments, form)
            better = (errors < least)[:, None]
            least = np.minimum(errors, least)
            best = Clipping(
                np.where(better, here.low, best.low), np.where(better, here.high, best.high)
            )
            if step == self.steps:
                break
            by_end = _scale_by_end(spec, form, here, ends)
            gradients = [
                by_scale * of_end * end * _slope(logit)
                for of_end, end, logit in zip(by_end, ends, (here.low, here.high), strict=True)
            ]
            states = [state.after(by) for state, by in zip(states, gradients, strict=True)]
            low, high = (self.rate * state.direction() for state in states)
            here = Clipping(here.low - low, here.high - high)
        return best if self.keep_best else here

    def _losses(
        self,
        weights: Float64s,
        spec: WeightSpec,
        clipping: Clipping,
        moments: Float64s,
        form: Integer,
    ) -> tuple[Float64s, Float64s]:
        """Return the loss of each row, and the derivative of all of them by each scale."""
        affine = _affine(weights, spec, clipping)
        scale, zero = (
            None if each is None else spec.granularity.spread(each.astype(np.float64), weights.shape)
            for each in (affine.scale, affine.zero)
        )
        assert scale is not None, "only zero points can be missing"
        made = rounded(weights, scale, zero, form, zero_first=affine.zero_first)
        change = made.decoded - weights
        product = change @ moments
        slope = spec.granularity.reduce(2 * product * made.by_scale, np.add)
        return np.einsum("oi,oi->o", product, change), slope


def _ends(weights: NDArray[Any], spec: WeightSpec) -> tuple[Float64s, Float64s]:
    low, high = (spec.granularity.reduce(weights, each) for each in (np.minimum, np.maximum))
    if spec.rule.include_zero and not spec.rule.symmetric:
        return np.minimum(low, 0), np.maximum(high, 0)
    return low, high


def _affine(weights: NDArray[Any], spec: WeightSpec, clipping: Clipping) -> Affine:
    low, high = _ends(weights, spec)
    kept = _sigmoid(clipping.low) * low, _sigmoid(clipping.high) * high
    return affine_of(spec.rule.scales(*kept, spec.format), spec.granularity, spec.rule)


def _scale_by_end(
    spec: WeightSpec, form: Integer, clipping: Clipping, ends: tuple[Float64s, Float64s]
) -> tuple[Float64s, Float64s]:
    """Return the derivatives of the scale by the low and the high end of the range."""
    if not spec.rule.symmetric:
        steps = float(form.high - form.low)
        return np.full(ends[0].shape, -1 / steps), np.full(ends[0].shape, 1 / steps)
    one = replace(spec.rule, smallest_scale=0.0, largest_scale=float("inf"), smallest_magnitude=0.0)
    reach = 1 / float(one.scales(np.array(-1.0), np.array(1.0), form).scale)
    low_sets = -_sigmoid(clipping.low) * ends[0] > _sigmoid(clipping.high) * ends[1]
    return np.where(low_sets, -1 / reach, 0), np.where(low_sets, 0, 1 / reach)


def _sigmoid(logits: Float64s) -> Float64s:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-logits))


def _slope(logits: Float64s) -> Float64s:
    kept = _sigmoid(logits)
    return kept * (1 - kept)
