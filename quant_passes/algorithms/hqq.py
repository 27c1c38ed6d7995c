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
        zero = self._zero(w, scale.astype(np.float64), start, granularity, form)
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
        parts = [
            _Part(rows, w[rows] / granularity.spread(scale[rows], w[rows].shape), granularity, form)
            for rows in row_parts(w.shape, granularity)
        ]
        count = granularity.reduce(np.ones(w.shape, np.float32), np.add).astype(np.float64)
        beta, best, least, all_least = self.beta, zero, np.full(zero.shape, np.inf), np.inf
        for step in range(self.steps + (not self.legacy)):
            rounds = [
                each.round(scale[each.rows], zero[each.rows], self.norm, beta) for each in parts
            ]
            errors = np.concatenate([each for _, each in rounds])
            best = np.where(errors < least * count, zero, best)
            least = np.minimum(errors / count, least)
            if step == self.steps:
                break
            zero = np.concatenate([each for each, _ in rounds]) / count
            beta *= self.kappa
            mean = float(errors.sum()) / w.size
            if self.legacy and mean >= all_least:
                break
            all_least = min(all_least, mean)
        return zero if self.legacy else best


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some rows of the weight over its scales.

    Attributes:
        rows: Which ones.
        scaled: ``w r``.
        granularity: Which of them share a scale.
        form: Their codes.
    """

    rows: slice
    scaled: NDArray[Any]
    granularity: Granularity
    form: Integer

    def round(
        self, scale: NDArray[Any], zero: NDArray[Any], norm: float, beta: float
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return sums by scale: the terms of the next zero points, and magnitudes of errors.

        With ``t = w r + z``, ``e`` is ``(t - q) / r`` and a term ``q - w r + shrink(e) r``. Nothing
        is left of errors up to ``beta ^ (-1 / (2 - p))``, which most weights do not reach; then
        there is no power to take.
        """
        spread = self.granularity.spread(zero, self.scaled.shape)
        off = self.scaled + spread
        codes = self.form.rounded(off)
        np.clip(codes, self.form.low, self.form.high, out=codes)
        off -= codes
        size = np.abs(off)
        errors = self.granularity.reduce(size, np.add) * scale
        largest = self.granularity.reduce(size, np.maximum) * scale
        codes -= self.scaled
        if np.max(largest) > beta ** (-1 / (2 - norm)):
            wide = self.granularity.spread(scale, off.shape)
            codes += _shrunk(off * wide, norm, beta) / wide
        return self.granularity.reduce(codes, np.add), errors


def _shrunk(off: NDArray[Any], norm: float, beta: float) -> NDArray[Any]:
    size = np.abs(off)
    with np.errstate(divide="ignore"):
        return np.sign(off) * np.maximum(size - size ** (norm - 1) / beta, 0)
