"""HQQ: the zero point for which the errors of a group are few and large rather than many."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.across_rows import AcrossRows, groups_across_rows
from ascendfx.quant_passes.algorithms.row_parts import row_parts
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_integer,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import Granularity, PerChannel, PerGroup
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.rounded_to import rounded_to
from ascendfx.quant_passes.scaling.scale_rule import Scales
from ascendfx.quant_passes.statistics import InputStatistics

_LEGACY_SPAN = 1e-4
_LEGACY_INVERSE = 2e4


@dataclass(frozen=True, slots=True)
class Hqq:
    """Half-quadratic splitting for the zero point; the scale is that of the extrema.

    With ``r = code steps / (max - min)``, from ``z = lowest code - min r`` on ::

        q = nearest code of w r + z;  e = w - (q - z) / r
        z = mean of q - (w - shrink(e)) r;  beta = kappa beta
        shrink(e) = sign(e) max(0, |e| - |e|^(p - 1) / beta)

    The zero point is not whole, is added before rounding, and is there whatever the rule says: of
    that only `stored` is used. The error of the weights falls, that of the output need not.

    Attributes:
        steps: Most rounds.
        norm: ``p``.
        beta: Its first value.
        kappa: What it is multiplied by.
        axis: 1: groups lie in rows; 0: they run across rows, as the package has it by default.
        legacy: As the package: all groups stop as soon as the mean error of all of them grows, and
            with the zero points *after* that step, one update too many; ranges below 1e-4 have
            the scale 1, others at least 5e-5. Else each group keeps the zero point with which its
            mean magnitude of errors is least.

    Raises:
        GraphError: `bad-algorithm`.

    Source: Badri and Shaji, "Half-Quadratic Quantization of Large Machine Learning Models" (2023),
    and its package.
    """

    steps: int = 20
    norm: float = 0.7
    beta: float = 10.0
    kappa: float = 1.01
    axis: Literal[0, 1] = 1
    legacy: bool = False

    name = "hqq"
    needs = frozenset[str]()

    def __post_init__(self) -> None:
        known = {
            "steps": self.steps >= 0,
            "norm": 0 < self.norm <= 1,
            "beta": 0 < self.beta < float("inf"),
            "kappa": 1 <= self.kappa < float("inf"),
            "axis": self.axis in {0, 1},
        }
        for option, fine in known.items():
            require_option(self.name, option, getattr(self, option), known=fine)

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``, as `AcrossRows` for axis 0.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; `bad-format`: codes are no integers;
                `bad-granularity`: axis 0 of something else than groups; of granularities.
        """
        del inputs
        numbers = require_weight(weight)
        form = require_integer(self.name, spec.format)
        if self.axis == 1:
            affine, told = self._affine(numbers, form, spec.granularity, spec.rule.stored)
            codes = affine.quantize(numbers, form)
            return QuantizedWeight(QuantizedTensor(codes, affine, form), told)
        if not isinstance(spec.granularity, PerGroup):
            reason = f"hqq across rows needs groups, and the granularity is {spec.granularity}"
            raise GraphError("bad-granularity", reason, hint="take PerGroup, or axis=1")
        groups = groups_across_rows(numbers, spec.granularity.size)
        affine, told = self._affine(groups, form, PerChannel(), spec.rule.stored)
        tensor = QuantizedTensor(affine.quantize(groups, form), affine, form)
        return QuantizedWeight(AcrossRows(tensor, numbers.shape), told)

    def _affine(
        self, w: NDArray[Any], form: Integer, granularity: Granularity, stored: DType
    ) -> tuple[Affine, tuple[Remark, ...]]:
        low, high = (granularity.reduce(w, each) for each in (np.minimum, np.maximum))
        span = high - low
        flat = span <= (_LEGACY_SPAN if self.legacy else 0)
        inverse = np.where(flat, 1.0, (form.high - form.low) / np.where(flat, 1.0, span))
        least = float(np.finfo(np.float32).tiny)
        inverse = np.minimum(inverse, _LEGACY_INVERSE if self.legacy else 1 / least)
        scale = rounded_to(1 / inverse, stored)
        start = form.low - low / scale
        wide = scale.astype(np.float64)
        # The package stops all groups at once, so they have to be together.
        parts = [slice(None)] if self.legacy else row_parts(w.shape, granularity)
        found = [self._zero(w[p], wide[p], start[p], granularity, form) for p in parts]
        zero = np.concatenate(found)
        affine = Affine(
            scale, rounded_to(zero, stored), granularity, zero_first=True, stored=stored
        )
        zeros = (low == 0) & (high == 0)
        return affine, Scales(scale, affine.zero, zeros).remarks(self.name)

    def _zero(
        self,
        w: NDArray[Any],
        scale: NDArray[Any],
        zero: NDArray[Any],
        granularity: Granularity,
        form: Integer,
    ) -> NDArray[Any]:
        """Return the zero points ``[scales]``."""
        if not w.size:
            return zero
        wide = granularity.spread(scale, w.shape)
        scaled = w / wide
        count = granularity.reduce(np.ones_like(w), np.add)
        beta, best, least, all_least = self.beta, zero, np.full(zero.shape, np.inf), np.inf
        for step in range(self.steps + 1):
            spread = granularity.spread(zero, w.shape)
            codes = np.clip(form.rounded(scaled + spread), form.low, form.high)
            off = w - (codes - spread) * wide
            error = granularity.reduce(np.abs(off), np.add) / count
            best = np.where(error < least, zero, best)
            least = np.minimum(error, least)
            if step == self.steps:
                break
            zero = granularity.reduce(codes - (w - self._shrunk(off, beta)) / wide, np.add) / count
            beta *= self.kappa
            mean = float(np.abs(off).mean())
            if self.legacy and mean >= all_least:
                break
            all_least = min(all_least, mean)
        return zero if self.legacy else best

    def _shrunk(self, off: NDArray[Any], beta: float) -> NDArray[Any]:
        size = np.abs(off)
        with np.errstate(divide="ignore"):
            return np.sign(off) * np.maximum(size - size ** (self.norm - 1) / beta, 0)
