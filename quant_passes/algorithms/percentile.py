"""Percentile: scales from quantiles instead of extrema, so that few outliers do not set them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.scaling.granularity import Granularity, PerBlock
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import affine_of, require_code_per_value
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True)
class Percentile:
    """Round to nearest with the range from one quantile to another; what is beyond saturates.

    Attributes:
        percent: Share of the weights of a scale within the range, the rest is cut off in equal
            parts on both sides. 100 is min-max.

    Raises:
        GraphError: `bad-algorithm`.
    """

    percent: float = 99.9

    name = "percentile"
    needs = frozenset[str]()

    def __post_init__(self) -> None:
        require_option(self.name, "percent", self.percent, known=0 < self.percent <= 100)

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``; inputs are not read.

        Quantiles between two weights are interpolated. A range that would be empty, as of rows
        with few weights that are not zero, is that of the extrema.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; of formats and granularities.
        """
        del inputs
        numbers = require_weight(weight)
        require_code_per_value(spec.format)
        granularity = spec.granularity
        cut = (100 - self.percent) / 2
        low, high = _percentiles(numbers, granularity, (cut, 100 - cut))
        ends = [granularity.reduce(numbers, each) for each in (np.minimum, np.maximum)]
        empty = (low == high) | ((low == 0) & (high == 0))
        scales = spec.rule.scales(
            np.where(empty, ends[0], low), np.where(empty, ends[1], high), spec.format
        )
        affine = affine_of(scales, granularity, spec.rule)
        tensor = QuantizedTensor(affine.quantize(numbers, spec.format), affine, spec.format)
        return QuantizedWeight(tensor, scales.remarks(self.name))


def _percentiles(
    numbers: NDArray[Any], granularity: Granularity, percents: tuple[float, float]
) -> tuple[NDArray[Any], NDArray[Any]]:
    shape = granularity.scale_shape(numbers.shape)
    if not numbers.size:
        return np.zeros(shape), np.zeros(shape)
    if not isinstance(granularity, PerBlock):
        low, high = np.percentile(numbers.reshape(np.prod(shape), -1), percents, axis=1)
        return low.reshape(shape), high.reshape(shape)
    low, high = np.empty(shape), np.empty(shape)
    rows, columns = granularity.rows, granularity.columns
    for i, j in np.ndindex(shape):
        block = numbers[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        low[i, j], high[i, j] = np.percentile(block, percents)
    return low, high
