"""Min-max: scales from the extrema, every weight to the nearest code."""

from dataclasses import dataclass

from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_numbers,
)
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import affine_of, extreme_scales
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True)
class MinMax:
    """Round to nearest with the scales that the rule finds for the extrema ("RTN").

    The right choice for weights of eight bits. Takes any format with a code per value.
    """

    name = "min_max"
    needs = frozenset[str]()

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``; inputs are not read.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; of formats and granularities.
        """
        del inputs
        numbers = require_numbers(weight)
        scales = extreme_scales(numbers, spec.format, spec.granularity, spec.rule)
        affine = affine_of(scales, spec.granularity, spec.rule)
        codes = affine.quantize(numbers, spec.format)
        tensor = QuantizedTensor(codes, affine, spec.format)
        return QuantizedWeight(tensor, scales.remarks(self.name))


MIN_MAX = MinMax()
"""Its only value."""
