"""Mean square: the range of every scale is shrunk to where the error of its weights is least."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.algorithms.row_parts import joined_rows, row_parts
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import affine_of, extreme_scales
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True)
class MeanSquare:
    """Extrema times ``1, 1 - 1/grid, 1 - 2/grid ...``; each scale keeps the best one.

    The full range comes first and only a smaller error replaces it, so no scale gets worse than
    min-max in the norm that is asked for.

    Attributes:
        norm: Exponent of the error: 2 is the mean square; IST-DASLab GPTQ takes 2.4.
        grid: Steps per range.
        shrink: Most that is taken off the range.

    Raises:
        GraphError: `bad-algorithm`.

    Source: Frantar et al., "GPTQ", arXiv 2210.17323: the quantizer of its published code.
    """

    norm: float = 2.0
    grid: int = 100
    shrink: float = 0.8

    name = "mean_square"
    needs = frozenset[str]()

    def __post_init__(self) -> None:
        require_option(self.name, "norm", self.norm, known=0 < self.norm < float("inf"))
        require_option(self.name, "grid", self.grid, known=self.grid >= 1)
        require_option(self.name, "shrink", self.shrink, known=0 <= self.shrink < 1)

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``; inputs are not read.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; of formats and granularities.
        """
        del inputs
        numbers = require_weight(weight)
        form, granularity, rule = spec.format, spec.granularity, spec.rule
        first = extreme_scales(numbers, form, granularity, rule)
        rows = row_parts(numbers.shape, granularity)
        best = joined_rows([self._best(numbers[part], spec) for part in rows])
        tensor = QuantizedTensor(best.quantize(numbers, form), best, form)
        return QuantizedWeight(tensor, first.remarks(self.name))

    def _best(self, numbers: NDArray[Any], spec: WeightSpec) -> Affine:
        form, granularity, rule = spec.format, spec.granularity, spec.rule
        best = affine_of(extreme_scales(numbers, form, granularity, rule), granularity, rule)
        kind: Any = rule.compute.numpy.type
        ends = (granularity.reduce(numbers, each) for each in (np.minimum, np.maximum))
        low, high = (each.astype(kind) for each in ends)
        least = self._errors(numbers, best, spec)
        for step in range(1, max(1, int(self.shrink * self.grid))):
            part = kind(1 - step / self.grid)
            tried = affine_of(rule.scales(part * low, part * high, form), granularity, rule)
            errors = self._errors(numbers, tried, spec)
            better = errors < least
            least = np.where(better, errors, least)
            best = chosen(better, tried, best)
        return best

    def _errors(self, numbers: NDArray[Any], affine: Affine, spec: WeightSpec) -> NDArray[Any]:
        return errors_by_scale(numbers, affine, spec, self.norm)


def errors_by_scale(
    numbers: NDArray[Any], affine: Affine, spec: WeightSpec, norm: float = 2.0
) -> NDArray[Any]:
    """Return the sum of ``|error| ** norm`` over the weights of each scale."""
    decoded = affine.quantize(numbers, spec.format)
    off = np.abs(affine.dequantize(decoded, spec.format) - numbers)
    return spec.granularity.reduce(off * off if norm == 2 else off**norm, np.add)


def chosen(better: NDArray[np.bool_], tried: Affine, best: Affine) -> Affine:
    """Return the scales of ``tried`` where they are better, else those of ``best``."""
    zero = best.zero
    if zero is not None and tried.zero is not None:
        zero = np.where(better, tried.zero, zero)
    return Affine(
        np.where(better, tried.scale, best.scale),
        zero,
        best.granularity,
        best.zero_first,
        best.compute,
        best.stored,
    )
