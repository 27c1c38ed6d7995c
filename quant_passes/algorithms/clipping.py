"""Ranges that are clipped by learned parts, and how scales follow from them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.algorithms.straight_through import rounded
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec, require_integer
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.round_to_nearest import affine_of


@dataclass(frozen=True, slots=True, eq=False)
class Clipping:
    """How much of the range of each scale is kept, as logits ``[out, scales]``.

    The range is ``sigmoid(low) min`` to ``sigmoid(high) max``.
    """

    low: Float64s
    high: Float64s


def clipped_losses(
    weights: Float64s, spec: WeightSpec, clipping: Clipping, moments: Float64s, unit: Float64s
) -> tuple[Float64s, Float64s]:
    """Return the loss ``e moments e^T`` of each row, and the derivative of all by each scale.

    Args:
        weights: ``[rows, in]``.
        spec: With integer codes.
        clipping: ``[rows, scales]``.
        moments: ``[in, in]``.
        unit: What errors are measured in, ``[rows, 1]`` or ``[1, 1]``.
    """
    form = require_integer("clipping", spec.format)
    affine = clipped_affine(weights, spec, clipping)
    scale = spec.granularity.spread(affine.scale.astype(np.float64), weights.shape)
    zero = affine.zero
    if zero is not None:
        zero = spec.granularity.spread(zero.astype(np.float64), weights.shape)
    made = rounded(weights, scale, zero, form, zero_first=affine.zero_first)
    change = (made.decoded - weights) / unit
    product = change @ moments
    slope = spec.granularity.reduce(2 * product * made.by_scale / unit, np.add)
    return np.einsum("oi,oi->o", product, change), slope


def ends_of(weights: NDArray[Any], spec: WeightSpec) -> tuple[Float64s, Float64s]:
    """Return the extrema of each scale, with 0 among them if the rule says so."""
    low, high = (spec.granularity.reduce(weights, each) for each in (np.minimum, np.maximum))
    if spec.rule.include_zero:
        return np.minimum(low, 0), np.maximum(high, 0)
    return low, high


def clipped_affine(weights: NDArray[Any], spec: WeightSpec, clipping: Clipping) -> Affine:
    """Return the scales of clipped ranges."""
    low, high = ends_of(weights, spec)
    kept = sigmoid(clipping.low) * low, sigmoid(clipping.high) * high
    return affine_of(spec.rule.scales(*kept, spec.format), spec.granularity, spec.rule)


def scale_by_end(
    spec: WeightSpec, form: Integer, clipping: Clipping, ends: tuple[Float64s, Float64s]
) -> tuple[Float64s, Float64s]:
    """Return the derivatives of the scale by the low and the high end of the range."""
    if not spec.rule.symmetric:
        steps = float(form.high - form.low)
        return np.full(ends[0].shape, -1 / steps), np.full(ends[0].shape, 1 / steps)
    one = replace(spec.rule, smallest_scale=0.0, largest_scale=float("inf"), smallest_magnitude=0.0)
    reach = 1 / float(one.scales(np.array(-1.0), np.array(1.0), form).scale)
    low_sets = -sigmoid(clipping.low) * ends[0] > sigmoid(clipping.high) * ends[1]
    return np.where(low_sets, -1 / reach, 0), np.where(low_sets, 0, 1 / reach)


def sigmoid(logits: Float64s) -> Float64s:
    """Return the part of a range that logits keep."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-logits))


def slope_of(logits: Float64s) -> Float64s:
    """Return the derivative of `sigmoid`."""
    kept = sigmoid(logits)
    return kept * (1 - kept)
