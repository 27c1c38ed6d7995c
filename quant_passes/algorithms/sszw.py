"""SSZW: scale, zero point and rounding of every weight by gradient descent on the layer's output.

The press names SSZW of OptiQuant and says that it "iterates scale, zero point and quantized weight
by gradient descent"; its formulas are not public. The definition here is our own.
"""

from dataclasses import dataclass

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.candidate import Candidate
from ascendfx.quant_passes.algorithms.descent import Descent
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.ssz import Ssz
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
from ascendfx.quant_passes.scaling.granularity import PerBlock, PerTensor
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.statistics import InputStatistics

_ROWS = 256
"""Rows at a time; they do not depend on each other."""


@dataclass(frozen=True, slots=True)
class Sszw:
    """Descent on what the output of each row is off, with the best kept.

    Parameters of a row with weights ``w``: ``t``, a logarithm per scale; ``y``, a zero point per
    scale (of asymmetric rules); ``v`` in [-1/2, 1/2], an offset per weight. With ``s0, z0`` of the
    first start ::

        s = stored(s0 exp t);  z = round y (or y, if the rule keeps zero points that are not whole)
        q = clip(round(w / s + v) + z);  e = (q - z) s - w
        loss = e (X^T X + damping mean(diag) 1) e^T

    Rounding has the derivative 1 and saturation 0, for weights and zero points alike. Parameters
    start at ``0, z0, 0`` and follow Adam with rates that fall linearly to zero over ``steps``. Of
    all points visited and of all starts, a row keeps the one with the least loss; where that is
    worse without damping than the best start, it keeps the start. So no row is worse on the
    calibration tokens than any of its starts.

    Attributes:
        steps: Steps; each costs a product ``[out, in] x [in, in]``.
        rate: Learning rate of the logarithms and, in codes, of zero points and offsets.
        damping: Share of the mean diagonal of ``X^T X`` added to it, so that what no token has seen
            does not move freely.
        tokens_per_input: Fewer tokens than this times ``in`` go to the first start alone.
            Measured with outliers and ``in / 4`` tokens: 0.15 to 0.2 of the error of min-max on
            tokens not seen.
        starts: Where to begin, and what else is a candidate; with ``Gptq()`` among them, no row is
            worse than that.

    Raises:
        GraphError: `bad-algorithm`.

    Source: own definition. Near to it: Cheng et al., "SignRound" (AutoRound), arXiv 2309.05516,
    for the offsets.
    """

    steps: int = 200
    rate: float = 0.02
    damping: float = 0.01
    tokens_per_input: float = 0.25
    starts: tuple[WeightAlgorithm, ...] = (Ssz(), MinMax())

    name = "sszw"
    needs = frozenset({"moments"})

    def __post_init__(self) -> None:
        known = {
            "steps": self.steps >= 0,
            "rate": 0 < self.rate < float("inf"),
            "damping": 0 <= self.damping < float("inf"),
            "tokens_per_input": 0 <= self.tokens_per_input < float("inf"),
            "starts": bool(self.starts) and all(each.needs <= self.needs for each in self.starts),
        }
        for option, fine in known.items():
            require_option(self.name, option, getattr(self, option), known=fine)

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
        require_integer(self.name, spec.format)
        require_scales_of_rows(self.name, spec)
        known, moments = require_moments(self, numbers, inputs)
        begun = [each.quantize(numbers, spec, known) for each in self.starts]
        wanted = max(1.0, self.tokens_per_input * known.channels)
        if known.tokens < wanted or not moments.any():
            reason = f"{known.tokens} tokens are fewer than {wanted:g}"
            if known.tokens >= wanted:
                reason = "all inputs were zero"
            remark = Remark(f"{self.name}: {reason}; {self.starts[0].name} took over")
            return QuantizedWeight(begun[0].tensor, (remark, *begun[0].remarks))
        tensors = [_plain(each) for each in begun]
        tensor = self._improved(numbers, spec, tensors, moments / known.tokens)
        return QuantizedWeight(tensor, begun[0].remarks)

    def _improved(
        self,
        numbers: Float64s,
        spec: WeightSpec,
        starts: list[QuantizedTensor],
        moments: Float64s,
    ) -> QuantizedTensor:
        damped = moments.copy()
        mean = np.diagonal(moments).mean()
        damped[np.diag_indices_from(damped)] += self.damping * mean
        damped = (damped / mean).astype(np.float32)
        parts: list[Candidate] = []
        for top in range(0, len(numbers), _ROWS):
            rows = slice(top, top + _ROWS)
            begun = [Candidate.of(start, rows) for start in starts]
            first = begun[0]
            for other in begun[1:]:
                first = first.less(other, numbers[rows], moments)
            descent = Descent(spec, starts[0].affine, damped, self.steps, self.rate)
            found = descent.run(numbers[rows], begun)
            parts.append(first.less(found, numbers[rows], moments))
        joined = Candidate.joined(parts) if parts else Candidate.of(starts[0], slice(None))
        return joined.tensor(starts[0])


def require_scales_of_rows(algorithm: str, spec: WeightSpec) -> None:
    """Refuse scales that several rows share.

    Raises:
        GraphError: `bad-granularity`.
    """
    if isinstance(spec.granularity, PerTensor | PerBlock):
        reason = (
            f"{algorithm} treats rows one by one, and {spec.granularity} lets them share scales"
        )
        raise GraphError("bad-granularity", reason, hint="take PerChannel() or PerGroup")


def _plain(found: QuantizedWeight) -> QuantizedTensor:
    if isinstance(found.tensor, QuantizedTensor):
        return found.tensor
    reason = f"sszw cannot start from a {type(found.tensor).__name__}"
    raise GraphError("bad-algorithm", reason, hint="start from ssz, min_max, mean_square or gptq")
