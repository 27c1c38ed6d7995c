"""SSZ: scale and zero point by least squares for the codes, codes for these, and again."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import DType
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.mean_square import chosen, errors_by_scale
from ascendfx.quant_passes.algorithms.row_parts import joined_rows, row_parts, rows_of
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightSpec,
    require_integer,
    require_moments,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Floats
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import Granularity
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.round_to_nearest import affine_of, extreme_scales
from ascendfx.quant_passes.scaling.rounded_to import rounded_to
from ascendfx.quant_passes.statistics import InputStatistics

_RELATIVE_FLOOR = 1e-4


@dataclass(frozen=True, slots=True)
class Ssz:
    """Alternating least squares per scale, from min-max on.

    With codes ``q``, zero point ``z`` and ``K`` weights ``w`` of a scale ::

        s = sum w (q - z) / sum (q - z)^2
        z = sum (q s - w) / (K s)              asymmetric rules only; a whole one if the rule says
        q = nearest code of w under s, z

    A scale stops when its mean square error ``m`` falls from the best so far by less than
    ``tolerance``, or by less than ``tolerance * max(m, 1e-4)``; the best is kept.

    Attributes:
        steps: Most rounds.
        normalize: Whether the weights of a scale are divided by their largest magnitude first,
            so that the test does not depend on the size of the weights. Both references do not,
            and change nothing at eight bits once weights are small.
        tolerance: Of the test.
        stop: Whether a scale stops on its own (``each``) or goes on until ``all`` are done, as in
            both references.
        least: Least denominator of ``s``.
        weighted: Whether squares are weighted by the mean square of the input channel.
        compute: Format of the arithmetic.

    Raises:
        GraphError: `bad-algorithm`.

    Source: described by omni-infer (OptiQuant, ``int4.py``) and msModelSlim (``ssz.py``), which
    call it Scan-Scale-Zero; `OPTIQUANT_SSZ` and `MSMODELSLIM_SSZ` are these two.
    """

    steps: int = 50
    normalize: bool = True
    tolerance: float = 1e-10
    stop: Literal["each", "all"] = "each"
    least: float = 1e-30
    weighted: bool = False
    compute: Literal[DType.BF16, DType.F32, DType.F64] = DType.F64

    name = "ssz"

    def __post_init__(self) -> None:
        known = {
            "steps": self.steps >= 0,
            "tolerance": self.tolerance >= 0,
            "stop": self.stop in {"each", "all"},
            "least": self.least > 0,
            "compute": self.compute in {DType.BF16, DType.F32, DType.F64},
        }
        for option, fine in known.items():
            require_option(self.name, option, getattr(self, option), known=fine)

    @property
    def needs(self) -> frozenset[str]:
        """Nothing, or the moments if it is weighted."""
        return frozenset({"moments"} if self.weighted else set[str]())

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; `bad-format`: codes are no integers;
                `statistics-missing` and `bad-statistics` if it is weighted; of granularities.
        """
        numbers = require_weight(weight)
        form = require_integer(self.name, spec.format)
        granularity, rule = spec.granularity, spec.rule
        importance, told = self._importance(numbers, inputs)
        scales = extreme_scales(numbers, form, granularity, rule)
        start = affine_of(scales, granularity, rule)
        fit = _Fit(self, form, spec, importance)
        # The references stop all rows at once, so they have to be together.
        parts = [slice(None)] if self.stop == "all" else row_parts(numbers.shape, granularity)
        found = [self._fitted(numbers[part], fit, rows_of(start, part)) for part in parts]
        codes: Any = np.concatenate([part.codes for part in found])
        affine = joined_rows([part.affine for part in found])
        tensor = QuantizedTensor(codes, affine, form)
        return QuantizedWeight(tensor, (*scales.remarks(self.name), *told))

    def _fitted(self, numbers: NDArray[Any], fit: "_Fit", start: Affine) -> QuantizedTensor:
        granularity, form = fit.granularity, fit.form
        absmax = granularity.reduce(np.abs(numbers), np.maximum)
        unit = np.where(absmax > 0, absmax, 1.0) if self.normalize else np.ones_like(absmax)
        scale, zero, codes = fit.run(numbers / granularity.spread(unit, numbers.shape), start, unit)
        if not self.normalize:
            best = replace(start, scale=scale.astype(start.scale.dtype), zero=zero)
            return QuantizedTensor(codes, best, form)
        stored = rounded_to(_within(scale * unit, start), start.stored)
        best = replace(start, scale=stored, zero=zero)
        if fit.importance is None:
            errors = [errors_by_scale(numbers, each, fit.spec) for each in (best, start)]
            best = chosen(errors[0] < errors[1], best, start)
        return QuantizedTensor(best.quantize(numbers, form), best, form)

    def _importance(
        self, numbers: NDArray[Any], inputs: InputStatistics | None
    ) -> tuple[NDArray[Any] | None, tuple[Remark, ...]]:
        if not self.weighted:
            return None, ()
        known, moments = require_moments(self, numbers, inputs)
        squares = np.diagonal(moments)
        if not known.tokens or not squares.any():
            return None, (Remark(f"{self.name}: no tokens, so all weights count alike"),)
        return squares / squares.mean(), ()


@dataclass(frozen=True, slots=True)
class _Fit:
    """The iteration over weights that are already normalized."""

    options: Ssz
    form: Integer
    spec: WeightSpec
    importance: NDArray[Any] | None

    @property
    def granularity(self) -> Granularity:
        return self.spec.granularity

    def run(
        self, weights: NDArray[Any], start: Affine, unit: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any] | None, Any]:
        """Return scale, zero point and codes with the least error."""
        kind = self.options.compute.numpy
        w = weights.astype(kind)
        scale = (start.scale / unit).astype(kind)
        zero = None if start.zero is None else start.zero.astype(kind)
        codes = self._codes(w, scale, zero)
        best = (scale, zero, codes)
        least = self._mean_square(w, *best)
        active = np.ones(scale.shape, np.bool_)
        for _ in range(self.options.steps):
            scale, zero = self._solved(w, codes, scale, zero)
            codes = self._codes(w, scale, zero)
            error = self._mean_square(w, scale, zero, codes)
            gain = (least - error).astype(kind)
            floor = np.maximum(least, kind.type(_RELATIVE_FLOOR))
            tolerance = self.options.tolerance
            going = ~(gain / floor < tolerance) & ~(np.abs(gain) < tolerance)
            if self.options.stop == "each":
                active &= going
            if not (active & going).any():
                break
            better = active & (error < least)
            least = np.where(better, error, least)
            best = self._better(better, (scale, zero, codes), best)
        return (best[0].astype(np.float64), _wide(best[1], start), best[2].astype(self.form.codes))

    def _solved(
        self, w: NDArray[Any], codes: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the scale of least squares for the codes, and the zero point for that."""
        a = codes if zero is None else codes - self._spread(zero, w)
        above, below = self._sum(a * w), self._sum(a * a)
        fitted = above / np.maximum(below, w.dtype.type(self.options.least))
        # Codes that are all zero say nothing of the scale.
        scale = np.where(np.isfinite(fitted) & (fitted > 0), fitted, scale)
        if zero is None or self.spec.rule.symmetric:
            return scale, zero
        count = self._sum(np.ones_like(w))
        zero = self._sum(codes * self._spread(scale, w) - w) / count / scale
        return scale, np.rint(zero) if self.spec.rule.round_zero else zero

    def _codes(
        self, w: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None
    ) -> NDArray[Any]:
        codes = w / self._spread(scale, w)
        if zero is not None and self.spec.rule.zero_first:
            codes = self.form.rounded(codes + self._spread(zero, w))
        else:
            codes = self.form.rounded(codes)
            codes = codes if zero is None else codes + self._spread(zero, w)
        # NumPy clips bfloat16 in float32 and leaves it there.
        return np.clip(codes, self.form.low, self.form.high).astype(w.dtype)

    def _mean_square(
        self, w: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None, codes: NDArray[Any]
    ) -> NDArray[Any]:
        a = codes if zero is None else codes - self._spread(zero, w)
        off = w - a * self._spread(scale, w)
        return (self._wide_sum(off * off) / self._wide_sum(np.ones_like(w))).astype(w.dtype)

    def _sum(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._wide_sum(values).astype(values.dtype)

    def _wide_sum(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.importance is not None:
            values = values * self.importance.astype(values.dtype)
        wide = values if values.dtype == np.float64 else values.astype(np.float32)
        return self.granularity.reduce(wide, np.add)

    def _spread(self, scales: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
        return self.granularity.spread(scales, w.shape)

    def _better(self, better: NDArray[np.bool_], new: Any, old: Any) -> Any:
        zero = old[1] if new[1] is None else np.where(better, new[1], old[1])
        by_weight = self.granularity.spread(better, new[2].shape)
        return (
            np.where(better, new[0], old[0]),
            zero,
            np.where(by_weight, new[2], old[2]),
        )


def _wide(zero: NDArray[Any] | None, start: Affine) -> NDArray[Any] | None:
    return None if zero is None or start.zero is None else zero.astype(start.zero.dtype)


def _within(scale: NDArray[Any], start: Affine) -> NDArray[Any]:
    """Return scales that have not left the numbers in which they are stored."""
    tiny = float(np.finfo(np.float32).tiny)
    return np.maximum(scale, tiny).astype(start.scale.dtype)


MSMODELSLIM_SSZ = Ssz(normalize=False, stop="all", compute=DType.F32)
"""As msModelSlim: with `MSMODELSLIM` and ``int4`` or ``int8``."""
OPTIQUANT_SSZ = Ssz(normalize=False, stop="all", least=1e-5, compute=DType.F32)
"""As OptiQuant: with `OPTIQUANT` and ``int4-narrow`` ...; asymmetric with ``int4``."""
