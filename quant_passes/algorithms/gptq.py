"""GPTQ: columns are rounded one by one, and what each is off is made up for by those after it."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.columns import Columns, affine_by_columns
from ascendfx.quant_passes.algorithms.inverse_cholesky import inverse_cholesky
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.weight_algorithm import (
    QuantizedWeight,
    WeightAlgorithm,
    WeightSpec,
    require_moments,
    require_option,
    require_weight,
)
from ascendfx.quant_passes.formats.format import Codes, Float64s, Floats
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerGroup
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.statistics import InputStatistics

_BLOCK = 128
_MOST_DAMPING = 1.0


@dataclass(frozen=True, slots=True)
class Gptq:
    """Least change of the layer's output, one column after the other.

    With ``H = X^T X + damping mean(diag) 1`` and upper ``U``, ``U^T U = H^-1``, column ``i`` is
    rounded to ``q``, and ``(w - q) / U_ii U_ij`` is taken off every later column ``j``. How columns
    are put into blocks changes nothing but the order of sums.

    Attributes:
        act_order: Columns with large inputs first; the order of the codes stays that of the weight.
        groups: Whether the scales of groups come from the weight as it is (``static``) or from what
            it has become when their turn comes (``dynamic``, not with `act_order`, which would need
            a table of groups in the checkpoint).
        damping: Share of the mean diagonal of ``H`` that is added to it; tenfold as often as the
            factorization fails, up to 1, and then `fallback`.
        tokens_per_input: Fewer tokens than this times ``in`` go to `fallback`, since GPTQ is worse
            than rounding then: of 40 layers it lost all with ``in / 4``, half of them with ``in``,
            none with ``4 in`` tokens.
        dead: What becomes of columns whose input was always 0: ``round`` them, so that the first
            token that is not 0 there finds a weight; ``zero`` after scales were made of them, too,
            as IST-DASLab does per channel; or ``zero-first``, as it does with groups.
        scales: Finds the scales, from the weight alone or the moments; dynamic groups have no
            moments of their own, so there from the weight alone.
        fallback: Takes over; data-free.

    Raises:
        GraphError: `bad-algorithm`: dynamic groups with act-order, or values that do not exist.

    Source: Frantar et al., "GPTQ", arXiv 2210.17323, algorithm 1.
    """

    act_order: bool = True
    groups: Literal["static", "dynamic"] = "static"
    damping: float = 0.01
    tokens_per_input: float = 4.0
    dead: Literal["round", "zero", "zero-first"] = "round"
    scales: WeightAlgorithm = MIN_MAX
    fallback: WeightAlgorithm = MIN_MAX

    name = "gptq"
    needs = frozenset({"moments"})

    def __post_init__(self) -> None:
        known = {
            "groups": self.groups in {"static", "dynamic"},
            "damping": 0 < self.damping <= _MOST_DAMPING,
            "tokens_per_input": 0 <= self.tokens_per_input < float("inf"),
            "dead": self.dead in {"round", "zero", "zero-first"},
            "scales": self.scales.needs <= (self.needs if self.groups == "static" else set())
            and self.scales.name != self.name,
            "fallback": not self.fallback.needs,
        }
        for option, fine in known.items():
            require_option(self.name, option, getattr(self, option), known=fine)
        if self.act_order and self.groups == "dynamic":
            reason = "gptq: act_order visits columns of all groups in turn, and dynamic groups are "
            hint = "take static groups, or act_order=False"
            raise GraphError("bad-algorithm", f"{reason}made of neighbours", hint=hint)

    def quantize(
        self, weight: Floats, spec: WeightSpec, inputs: InputStatistics | None = None
    ) -> QuantizedWeight:
        """Return the codes of a weight ``[out, in]``.

        Raises:
            GraphError: `bad-weight`; `values-not-finite`; `statistics-missing`; `bad-statistics`;
                of formats and granularities.
        """
        numbers = require_weight(weight)
        known, moments = require_moments(self, numbers, inputs)
        wanted = max(1.0, self.tokens_per_input * known.channels)
        if known.tokens < wanted:
            reason = f"{known.tokens} tokens are fewer than {wanted:g}"
            return self._fallen_back(numbers, spec, reason)
        dead = np.diagonal(moments) <= 0
        order = np.argsort(-np.diagonal(moments), kind="stable")
        order = order if self.act_order else np.arange(known.channels)
        factor, damping = self._factor(moments[np.ix_(order, order)], dead[order])
        if factor is None:
            reason = f"X^T X has no Cholesky factor even with damping {_MOST_DAMPING:g}"
            return self._fallen_back(numbers, spec, reason)
        live = np.where(dead, 0, numbers)
        affine, found = None, ()
        if self.groups == "static" or not isinstance(spec.granularity, PerGroup):
            first = live if self.dead == "zero-first" else numbers
            affine, found = self._scales(first, spec, known)
        kept = numbers if self.dead == "round" else live
        tensor, more = self._rounded(kept, spec, order, factor, affine)
        return QuantizedWeight(tensor, (*self._remarks(dead, damping), *found, *more))

    def _fallen_back(self, numbers: Float64s, spec: WeightSpec, reason: str) -> QuantizedWeight:
        instead = self.fallback.quantize(numbers, spec, None)
        remark = Remark(f"{self.name}: {reason}; {self.fallback.name} took over")
        return QuantizedWeight(instead.tensor, (remark, *instead.remarks))

    def _remarks(self, dead: np.ndarray, damping: float) -> list[Remark]:
        told: list[Remark] = []
        if dead.any():
            count, first = int(dead.sum()), int(dead.argmax())
            done = "rounded to nearest" if self.dead == "round" else "zero"
            text = (
                f"{self.name}: {count} channels had no input and are {done}; the first is {first}"
            )
            told.append(Remark(text))
        if damping != self.damping:
            text = f"{self.name}: damping was raised from {self.damping:g} to {damping:g}"
            told.append(Remark(text))
        return told

    def _factor(self, moments: Float64s, dead: np.ndarray) -> tuple[Float64s | None, float]:
        """Return the factor and the damping with which it exists."""
        diagonal = np.where(dead, 1.0, np.diagonal(moments))
        damping = self.damping
        while True:
            damped = moments.copy()
            np.fill_diagonal(damped, diagonal + damping * diagonal.mean())
            try:
                factor = inverse_cholesky(damped)
            except np.linalg.LinAlgError:
                factor = None
            if factor is not None and np.isfinite(factor).all():
                return factor, damping
            if damping >= _MOST_DAMPING:
                return None, damping
            damping = min(_MOST_DAMPING, 10 * damping)

    def _rounded(
        self,
        numbers: Float64s,
        spec: WeightSpec,
        order: np.ndarray,
        factor: Float64s,
        affine: Affine | None,
    ) -> tuple[QuantizedTensor, tuple[Remark, ...]]:
        """Return the codes under the given scales, or under those of dynamic groups."""
        turned = np.ascontiguousarray(numbers.T[order])  # [in, out]: a column is a row
        width, remarks = _BLOCK, ()
        if affine is None and isinstance(spec.granularity, PerGroup):
            spec.granularity.scale_shape(numbers.shape)
            width = spec.granularity.size
        parts: list[Affine] = []
        errors = np.zeros_like(turned)
        codes = np.empty(turned.shape, spec.format.codes)
        for start in range(0, len(turned), width):
            block = slice(start, min(len(turned), start + width))
            current = turned[block] - factor[:start, block].T @ errors[:start]
            if affine is None:
                group = replace(spec, granularity=PerChannel())
                part, told = self._scales(current.T, group, None)
                parts, remarks = [*parts, part], remarks + told
                columns = affine_by_columns(part, current.T.shape, np.arange(len(current)))
            else:
                columns = affine_by_columns(affine, numbers.shape, order[block])
            _round_block(current, columns, spec, factor[block, block], codes[block], errors[block])
        back = np.empty_like(codes)
        back[order] = codes
        codes = np.ascontiguousarray(back.T)
        return QuantizedTensor(codes, affine or _joined(parts, spec), spec.format), remarks

    def _scales(
        self, numbers: Float64s, spec: WeightSpec, known: InputStatistics | None
    ) -> tuple[Affine, tuple[Remark, ...]]:
        found = self.scales.quantize(numbers, spec, known)
        if not isinstance(found.tensor, QuantizedTensor):
            reason = f"gptq cannot take scales from {self.scales.name}, which has other ones"
            raise GraphError("bad-algorithm", reason, hint="take min_max, mean_square or ssz")
        return found.tensor.affine, found.remarks


def _round_block(
    current: Float64s,
    columns: Columns,
    spec: WeightSpec,
    factor: Float64s,
    codes: Codes,
    errors: Float64s,
) -> None:
    """Fill in the codes and errors of ``[columns, out]`` weights, one column after the other."""
    for i, row in enumerate(current):
        # What all columns before are off is taken at once: reading errors costs less than
        # writing every later column each time.
        updated = row - factor[:i, i] @ errors[:i]
        codes[i], decoded = columns.rounded(updated, i, spec.format)
        errors[i] = (updated - decoded) / factor[i, i]


def _joined(parts: list[Affine], spec: WeightSpec) -> Affine:
    """Return the scales of groups one after the other as those of the weight."""
    zeros = [part.zero for part in parts if part.zero is not None]
    return replace(
        parts[0],
        scale=np.concatenate([part.scale for part in parts], axis=1),
        zero=np.concatenate(zeros, axis=1) if zeros else None,
        granularity=spec.granularity,
    )
