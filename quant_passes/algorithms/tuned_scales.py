"""Tuned scales: codes stay, and their scales make up for what the output is off."""

from dataclasses import dataclass, field, replace

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.candidate import Candidate
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.ssz import Ssz
from ascendfx.quant_passes.algorithms.sszw import require_scales_of_rows
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightAlgorithm,
    WeightSpec,
    require_integer,
    require_moments,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Float64s, Floats
from ascendfx.quant_passes.scaling.granularity import PerGroup
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.rounded_to import rounded_to
from ascendfx.quant_passes.statistics import InputStatistics

_ROWS = 256
"""Rows at a time; they do not depend on each other."""
_LEAST = 1e-9
"""Share of the mean diagonal that keeps the equations of a row solvable."""


def _gptq() -> WeightAlgorithm:
    return Gptq(scales=Ssz(weighted=True), fallback=Ssz())


@dataclass(frozen=True, slots=True)
class TunedScales:
    """Least squares for the scales of codes that another algorithm chose.

    With the numbers ``d_g`` of the codes of group ``g`` of a row ``w``, zeros elsewhere, and
    ``H = X^T X + damping mean(diag) 1``, factors ``m`` of the scales minimise
    ``(sum_g m_g d_g - w) H (sum_g m_g d_g - w)^T``: as many linear equations as groups. Scales are
    rounded as they are stored; where one would not be positive, or a row would be worse without
    damping, the row keeps its scales. So no row is worse than `codes` made it.

    Attributes:
        codes: Chooses codes, and the scales to begin with.
        damping: Share of the mean diagonal of ``X^T X`` added to it.
        tokens_per_input: Fewer tokens than this times ``in`` change nothing.

    Raises:
        GraphError: `bad-algorithm`.

    Source: derived; what AWQ, OmniQuant and EfficientQAT find by descent has a closed form once
    codes are fixed.
    """

    codes: WeightAlgorithm = field(default_factory=_gptq)
    damping: float = 0.01
    tokens_per_input: float = 1.0

    name = "tuned_scales"

    def __post_init__(self) -> None:
        known = {
            "codes": self.codes.name != self.name,
            "damping": 0 < self.damping <= 1,
            "tokens_per_input": 0 <= self.tokens_per_input < float("inf"),
        }
        for option, fine in known.items():
            require_option(self.name, option, getattr(self, option), known=fine)

    @property
    def needs(self) -> frozenset[str]:
        """Moments, and what the codes need."""
        return self.codes.needs | {"moments"}

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; `bad-format`: codes are no integers;
                `statistics-missing`; `bad-statistics`; `bad-granularity`: a scale is shared by
                rows; `bad-algorithm`: codes without scales.
        """
        numbers = require_weight(weight)
        require_integer(self.name, spec.format)
        require_scales_of_rows(self.name, spec)
        known, moments = require_moments(self, numbers, inputs)
        made = self.codes.quantize(numbers, spec, known)
        tensor = made.tensor
        if not isinstance(tensor, QuantizedTensor):
            reason = f"{self.name} cannot tune a {type(tensor).__name__}"
            raise GraphError("bad-algorithm", reason, hint="let gptq, ssz or sszw choose the codes")
        wanted = max(1.0, self.tokens_per_input * known.channels)
        if known.tokens < wanted or not moments.any():
            reason = f"{known.tokens} tokens are fewer than {wanted:g}"
            if known.tokens >= wanted:
                reason = "all inputs were zero"
            remark = Remark(f"{self.name}: {reason}; scales stay those of {self.codes.name}")
            return QuantizedWeight(tensor, (remark, *made.remarks))
        parts: list[Candidate] = []
        for top in range(0, len(numbers), _ROWS):
            rows = slice(top, top + _ROWS)
            parts.append(self._tuned(numbers[rows], Candidate.of(tensor, rows), spec, moments))
        tuned = Candidate.joined(parts).tensor(tensor) if parts else tensor
        return QuantizedWeight(tuned, made.remarks)

    def _tuned(
        self, weights: Float64s, start: Candidate, spec: WeightSpec, moments: Float64s
    ) -> Candidate:
        damped = moments + self.damping * np.diagonal(moments).mean() * np.eye(len(moments))
        decoded = start.decoded(weights.shape)
        granularity = spec.granularity
        size = granularity.size if isinstance(granularity, PerGroup) else weights.shape[1]
        factors = factors_of_groups(decoded, weights, damped, size)
        scale = rounded_to(start.scale.astype(np.float64) * factors, spec.rule.stored)
        least = np.nan_to_num(scale.astype(np.float64), nan=0, posinf=0).min(axis=1, keepdims=True)
        other = replace(start, scale=np.where(least > 0, scale, start.scale))
        return start.less(other, weights, moments)


def factors_of_groups(
    decoded: Float64s, weights: Float64s, moments: Float64s, size: int
) -> Float64s:
    """Return the factors of groups with which numbers have the least error of the output.

    Args:
        decoded: The numbers of the codes, ``[out, in]``.
        weights: What they stand for.
        moments: ``X^T X``, positive definite.
        size: Weights of a group.

    Returns:
        ``[out, groups]``; 1 where a group has zeros only.
    """
    rows, groups = len(decoded), -(-decoded.shape[1] // size)

    def summed(products: Float64s) -> Float64s:
        return np.add.reduceat(products, np.arange(0, decoded.shape[1], size), axis=1)

    wanted = summed(weights @ moments * decoded)
    matrix = np.empty((rows, groups, groups))
    for group in range(groups):
        columns = slice(group * size, (group + 1) * size)
        matrix[:, group] = summed(decoded[:, columns] @ moments[columns] * decoded)
    diagonal = np.einsum("rgg->rg", matrix)
    empty = diagonal <= 0
    wanted = np.where(empty, 1.0, wanted)
    diagonal += np.where(empty, 1.0, _LEAST * diagonal.mean(1, keepdims=True))
    solved = np.linalg.solve(matrix, wanted[..., None])[..., 0]
    return solved.astype(np.float64, copy=False)
