"""Learned clipping of activations: one part of every token's range, for all tokens alike."""

from dataclasses import dataclass, replace

import numpy as np

from ascendfx.quant_passes.algorithms.adam import adam
from ascendfx.quant_passes.algorithms.clipping import (
    Clipping,
    clipped_affine,
    clipped_losses,
    ends_of,
    scale_by_end,
    sigmoid,
    slope_of,
)
from ascendfx.quant_passes.algorithms.row_units import row_units
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    WeightSpec,
    require_integer,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import PerToken
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import DYNAMIC, ScaleRule

INT8 = Integer(8)


@dataclass(frozen=True, slots=True)
class ActivationClipping:
    """Per-token quantization whose range is ``low min(x, 0)`` to ``high max(x, 0)``.

    Attributes:
        low: Part of the lower end that is kept, in (0, 1].
        high: The same of the upper end.
        form: Integer codes.
        rule: How the clipped range becomes a scale.
    """

    low: float
    high: float
    form: Integer = INT8
    rule: ScaleRule = DYNAMIC

    def affine(self, inputs: Floats) -> Affine:
        """Return the scales of the tokens ``[tokens, in]``.

        Raises:
            GraphError: `bad-weight`: other axes; `values-not-finite`.
        """
        numbers = require_weight(inputs)
        shape = (len(numbers), 1)
        logits = [_logit(part) for part in (self.low, self.high)]
        clipping = Clipping(*(np.full(shape, each) for each in logits))
        return clipped_affine(numbers, _spec(self.form, self.rule), clipping)

    def quantize(self, inputs: Floats) -> QuantizedTensor:
        """Return the codes of tokens ``[tokens, in]``.

        Raises:
            GraphError: As `affine`.
        """
        affine = self.affine(inputs)
        return QuantizedTensor(affine.quantize(inputs, self.form), affine, self.form)


def learned_activation_clipping(
    inputs: Floats,
    weight: Floats,
    *,
    form: Integer = INT8,
    rule: ScaleRule = DYNAMIC,
    steps: int = 100,
    rate: float = 1e-2,
) -> ActivationClipping:
    """Learn one part for the lower and one for the upper end of all tokens, by gradient descent.

    The loss is the mean square of what ``inputs @ weight.T`` is off. As LAC, logits start at 4 and
    ends are at least 0 above and at most 0 below; other than there, the best point is kept, and no
    clipping at all is one of them. Without tokens, nothing is clipped.

    Args:
        inputs: A sample, ``[tokens, in]``.
        weight: ``[out, in]``, as it is or decoded from its codes.
        form: Integer codes.
        rule: How ranges become scales.
        steps: Steps of Adam; each costs a product ``[tokens, in] x [in, in]``.
        rate: Learning rate.

    Raises:
        GraphError: `bad-weight`; `values-not-finite`; `bad-format`.

    Source: LAC of amct for DeepSeek-V3.2 (``auto_clip.py``).
    """
    numbers, weights = require_weight(inputs), require_weight(weight)
    integer = require_integer("learned_activation_clipping", form)
    spec = _spec(integer, rule)
    if not numbers.size:
        return ActivationClipping(1.0, 1.0, integer, rule)
    moments = weights.T @ weights
    moments /= (np.diagonal(moments).mean() or 1.0) * len(numbers)
    unit = row_units(numbers.reshape(1, -1))
    ends = ends_of(numbers, spec)
    shape = ends[0].shape
    none = Clipping(np.full(shape, np.inf), np.full(shape, np.inf))
    best, least = none, clipped_losses(numbers, spec, none, moments, unit)[0].sum()
    here = Clipping(np.full(shape, 4.0), np.full(shape, 4.0))
    states = [adam(np.zeros(())), adam(np.zeros(()))]
    for step in range(steps + 1):
        errors, by_scale = clipped_losses(numbers, spec, here, moments, unit)
        if errors.sum() < least:
            best, least = here, errors.sum()
        if step == steps:
            break
        by_end = scale_by_end(spec, integer, here, ends)
        gradients = [
            (by_scale * of_end * end * slope_of(logit)).sum()
            for of_end, end, logit in zip(by_end, ends, (here.low, here.high), strict=True)
        ]
        states = [state.after(by) for state, by in zip(states, gradients, strict=True)]
        low, high = (rate * state.direction() for state in states)
        here = Clipping(here.low - low, here.high - high)
    low, high = (float(sigmoid(each)[0, 0]) for each in (best.low, best.high))
    return ActivationClipping(low, high, integer, rule)


def _spec(form: Integer, rule: ScaleRule) -> WeightSpec:
    return WeightSpec(form, PerToken(), replace(rule, include_zero=True))


def _logit(part: float) -> float:
    return float("inf") if part >= 1 else float(np.log(part / (1 - part)))
