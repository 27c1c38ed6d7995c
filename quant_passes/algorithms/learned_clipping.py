"""Learned clipping of weights: how much of each range to give up, by gradient descent."""

from dataclasses import dataclass

import numpy as np

from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.adam import adam
from ascendfx.quant_passes.algorithms.candidate import Candidate
from ascendfx.quant_passes.algorithms.clipping import (
    Clipping,
    clipped_affine,
    clipped_losses,
    ends_of,
    scale_by_end,
    slope_of,
)
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.row_units import row_units
from ascendfx.quant_passes.algorithms.sszw import require_scales_of_rows
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_integer,
    require_moments,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Float64s, Floats
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.statistics import InputStatistics

_ROWS = 256


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
        normalize: Whether the loss is measured in units of the row and of the inputs. OmniQuant's
            is not, so that 1e-8, which Adam adds to the size of a gradient, slows it at the size of
            usual weights, and stops it for small ones.

    Raises:
        GraphError: `bad-algorithm`.

    Source: Shao et al., "OmniQuant", arXiv 2308.13137, section 3.2; LWC of amct for DeepSeek-V3.2.
    """

    steps: int = 200
    rate: float = 1e-2
    start: float = 4.0
    keep_best: bool = True
    normalize: bool = True

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
        known, moments = require_moments(self, numbers, inputs)
        plain = MinMax().quantize(numbers, spec)
        if not known.tokens or not moments.any():
            what = "no tokens" if not known.tokens else "all inputs were zero"
            remark = Remark(f"{self.name}: {what}; min_max took over")
            return QuantizedWeight(plain.tensor, (remark, *plain.remarks))
        _, clipped = self.learn(numbers, spec, known)
        tensor = QuantizedTensor(clipped.quantize(numbers, form), clipped, form)
        if self.keep_best and isinstance(plain.tensor, QuantizedTensor):
            # The descent rounds in float64; where the rule rounds in float32, ties differ.
            first, found = (Candidate.of(each, slice(None)) for each in (plain.tensor, tensor))
            tensor = first.less(found, numbers, moments).tensor(tensor)
        return QuantizedWeight(tensor, plain.remarks)

    def learn(
        self, weight: Float64s, spec: WeightSpec, inputs: InputStatistics
    ) -> tuple[Clipping, Affine]:
        """Return the logits and the scales that follow from them.

        Where min-max is best, the logits are infinite.

        Raises:
            GraphError: As `quantize`.
        """
        require_scales_of_rows(self.name, spec)
        known, moments = require_moments(self, weight, inputs)
        size = max(1, known.tokens) * max(1, len(weight))
        if self.normalize and known.channels:
            size = np.diagonal(moments).mean() or 1.0
        moments = moments / size
        shape = spec.granularity.scale_shape(weight.shape)
        clipping = Clipping(np.full(shape, np.inf), np.full(shape, np.inf))
        for top in range(0, len(weight), _ROWS):
            rows = slice(top, top + _ROWS)
            found = self._descent(weight[rows], spec, moments)
            clipping.low[rows], clipping.high[rows] = found.low, found.high
        return clipping, clipped_affine(weight, spec, clipping)

    def _descent(self, weights: Float64s, spec: WeightSpec, moments: Float64s) -> Clipping:
        form = require_integer(self.name, spec.format)
        ends = ends_of(weights, spec)
        unit = row_units(weights) if self.normalize else np.ones((1, 1))
        here = Clipping(*(np.full(ends[0].shape, float(self.start)) for _ in range(2)))
        best = Clipping(*(np.full(ends[0].shape, np.inf) for _ in range(2)))
        least = clipped_losses(weights, spec, best, moments, unit)[0]
        states = [adam(here.low), adam(here.high)]
        for step in range(self.steps + 1):
            errors, by_scale = clipped_losses(weights, spec, here, moments, unit)
            better = (errors < least)[:, None]
            least = np.minimum(errors, least)
            best = Clipping(
                np.where(better, here.low, best.low), np.where(better, here.high, best.high)
            )
            if step == self.steps:
                break
            by_end = scale_by_end(spec, form, here, ends)
            gradients = [
                by_scale * of_end * end * slope_of(logit)
                for of_end, end, logit in zip(by_end, ends, (here.low, here.high), strict=True)
            ]
            states = [state.after(by) for state, by in zip(states, gradients, strict=True)]
            low, high = (self.rate * state.direction() for state in states)
            here = Clipping(here.low - low, here.high - high)
        return best if self.keep_best else here
