"""QServe: int8 per channel first, then groups of four bits inside, so that kernels stay in int8."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.progressive_tensor import ProgressiveTensor
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_integer,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerGroup
from ascendfx.quant_passes.scaling.round_to_nearest import extreme_scales
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule
from ascendfx.quant_passes.statistics import InputStatistics

LIMIT = 119
"""Largest magnitude of the first level. With it no group leaves int8 (the worst is 121), with 120
one does (128): enumerated by the tests for four bits."""


@dataclass(frozen=True, slots=True)
class Qserve:
    """Progressive quantization of a weight ``[out, in]`` to ``uint4`` in groups.

    ::

        s1 = absmax / 119 per channel;  q8 = round(w / s1)
        s2 = round((max q8 - min q8) / 15), at least 1, per group;  z = round(-min q8 / s2)
        q4 = clip(round(q8 / s2) + z)

    ``(q4 - z) s2`` is an int8, so a kernel multiplies in int8 and scales once per channel. The
    range of a group includes 0, which the published formula takes for granted: without it a group
    of large values of one sign has a zero point that is no code. The scale rule gives only the
    arithmetic of ``s1``.

    Source: Lin et al., "QServe", arXiv 2405.04532, section 4.1.
    """

    name = "qserve"
    needs = frozenset[str]()

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight as a `ProgressiveTensor`.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; `bad-format`: not ``uint4``;
                `bad-granularity`: no groups, or some that do not divide the row.
        """
        del inputs
        numbers = require_weight(weight)
        form = require_integer(self.name, spec.format)
        if form.signed or form.bits != 4:  # the limit is proved for it alone
            reason = f"qserve makes uint4, not {form.name}"
            raise GraphError("bad-format", reason, hint="ask for format_named('uint4')")
        if not isinstance(spec.granularity, PerGroup):
            reason = (
                f"qserve needs groups inside channels, and the granularity is {spec.granularity}"
            )
            raise GraphError("bad-granularity", reason, hint="take PerGroup(128)")
        first = ScaleRule(reach=float(LIMIT), compute=spec.rule.compute)
        scales = extreme_scales(numbers, Integer(8), PerChannel(), first)
        wide: Any = numbers.astype(first.compute.numpy)
        middle: Any = np.rint(wide / scales.scale)
        middle = np.clip(middle, -LIMIT, LIMIT).astype(np.float64)
        low, high = (spec.granularity.reduce(middle, each) for each in (np.minimum, np.maximum))
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        step = np.maximum(np.rint((high - low) / form.high), 1)
        zero = np.clip(np.rint(-low / step), 0, form.high)
        steps, zeros = (spec.granularity.spread(each, numbers.shape) for each in (step, zero))
        codes = np.clip(np.rint(middle / steps) + zeros, 0, form.high).astype(np.uint8)
        tensor = ProgressiveTensor(
            codes,
            step.astype(np.uint8),
            zero.astype(np.uint8),
            scales.scale.astype(np.float32),
            replace(form, rounding="even"),
        )
        return QuantizedWeight(tensor, scales.remarks(self.name))
