"""How the smallest and the largest of some values become their scale and zero point.

Tools disagree here, which is the usual reason why numbers do not match; `ScaleRule` has their
differences as fields, and the presets are their conventions.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from ml_dtypes import finfo
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.formats.format import Bools, Floats, Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.rounded_to import rounded_to


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """Scales and zero points as a rule found them.

    Attributes:
        scale: Positive and finite, of the precision in which they are stored: float64 if that is
            f64, else float32.
        zero: The code, as a float, that stands for the number 0; None if it is code 0.
        all_zero: Where all values were zero: the scale there is 1 and the zero point 0, or the
            lowest code if that is above.
    """

    scale: Floats
    zero: Floats | None
    all_zero: Bools

    def remarks(self, name: str) -> tuple[Remark, ...]:
        """Return a remark if there are scales of zeros only in a tensor called ``name``."""
        if not self.all_zero.any():
            return ()
        count, place = int(self.all_zero.sum()), np.argwhere(self.all_zero)[0].tolist()
        text = f"{name}: {count} of {self.all_zero.size} scales are 1 because all values are zero"
        return (Remark(f"{text}; the first is {place}"),)


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """From extrema to ``scale`` and ``zero``, so that ``number = (code - zero) * scale``.

    ==========  ====================================================================
    symmetric   ``scale = max(|min|, |max|) / reach``; no zero point, or a fixed one
    asymmetric  ``scale = (max - min) / (highest code - lowest code)``,
                ``zero = lowest code + round(-min / scale)``
    ==========  ====================================================================

    Attributes:
        symmetric: Which of the two.
        reach: The code that the largest magnitude becomes: ``top`` is the highest one (7 of int4),
            ``half-range`` half of all steps (7.5 of int4, so that both ends are used), a number is
            itself: HiFloat8 is most precise with 15.
        include_zero: Asymmetric: extend the range to contain 0, so that 0 has a code.
        smallest_scale: Scales below it are raised to it, and in any case to the smallest normal
            number of `stored`.
        largest_scale: Scales above it are lowered to it.
        smallest_magnitude: Magnitudes below it are raised to it, before the division.
        round_zero: Asymmetric: whether the zero point is a whole number.
        clip_zero: Asymmetric: whether the zero point is clipped to the codes.
        zero_first: Whether the zero point is added before rounding; the same for whole ones.
        unsigned_zero: The fixed zero point of symmetric codes without a sign: the upper or the
            lower one of the two codes in the middle (8 or 7 of uint4).
        compute: Format of the arithmetic; f32 or bf16 to agree with a reference bit by bit.
        stored: Format that scales are rounded to before codes are made of them, so that codes are
            those of the scales that a reader finds.
    """

    symmetric: bool = True
    reach: Literal["top", "half-range"] | float = "top"
    include_zero: bool = True
    smallest_scale: float = 0.0
    largest_scale: float = float("inf")
    smallest_magnitude: float = 0.0
    round_zero: bool = True
    clip_zero: bool = False
    zero_first: bool = False
    unsigned_zero: Literal["upper", "lower"] = "upper"
    compute: Literal[DType.BF16, DType.F32, DType.F64] = DType.F64
    stored: Literal[DType.F64, DType.F32, DType.BF16, DType.F16] = DType.F32

    def __post_init__(self) -> None:
        """Refuse options that do not exist.

        Raises:
            GraphError: `bad-scale`.
        """
        number = isinstance(self.reach, float | int) and 0 < self.reach < float("inf")
        limits = (self.smallest_scale, self.largest_scale, self.smallest_magnitude)
        options = (
            ("reach", self.reach, number or self.reach in {"top", "half-range"}),
            ("unsigned_zero", self.unsigned_zero, self.unsigned_zero in {"upper", "lower"}),
            ("compute", self.compute, self.compute in {DType.BF16, DType.F32, DType.F64}),
            ("stored", self.stored, self.stored.is_float),
            ("limits", limits, min(limits) >= 0 and self.smallest_scale <= self.largest_scale),
        )
        for option, value, known in options:
            if not known:
                reason = f"a scale rule cannot have {option} {value!r}"
                hint = "the options are told in quant_passes/scaling/scale_rule.py"
                raise GraphError("bad-scale", reason, hint=hint)

    def scales(self, minimum: Floats, maximum: Floats, form: Format) -> Scales:
        """Return the scales for extrema of any shape.

        Rows of zeros have scale 1: never 0 and never NaN, whatever the reference does.

        Raises:
            GraphError: `values-not-finite`: an extremum is infinite or NaN; `bad-format`: the rule
                needs integer codes and the format has none.
        """
        low, high = (np.asarray(each, self.compute.numpy) for each in (minimum, maximum))
        _require_finite(low, high)
        all_zero = (low == 0) & (high == 0)
        with np.errstate(over="ignore", under="ignore"):
            if self.symmetric:
                scale = self._symmetric(low, high, all_zero, form)
                return Scales(scale, self._middle_code(scale, form), all_zero)
            integer = _require_integer(form, "an asymmetric rule")
            scale, zero = self._asymmetric(low, high, all_zero, integer)
        return Scales(scale, zero, all_zero)

    def _symmetric(self, low: Any, high: Any, all_zero: Bools, form: Format) -> Floats:
        kind = low.dtype.type
        largest = np.maximum(np.maximum(-low, high), kind(self.smallest_magnitude))
        return self._as_stored(largest / kind(self._reach_in(form)), all_zero)

    def _middle_code(self, scale: Floats, form: Format) -> Floats | None:
        if not isinstance(form, Integer) or form.signed:
            return None
        middle = (1 << (form.bits - 1)) - (self.unsigned_zero == "lower")
        return np.full_like(scale, middle)

    def _asymmetric(
        self, low: Any, high: Any, all_zero: Bools, integer: Integer
    ) -> tuple[Floats, Floats]:
        kind = low.dtype.type
        if self.include_zero:
            low, high = np.minimum(low, kind(0)), np.maximum(high, kind(0))
        steps = kind(integer.high - integer.low)
        span = high - low
        # Only where the difference overflows is it computed in halves, which round alike.
        scale = np.where(np.isfinite(span), span / steps, (high / 2 - low / 2) / (steps / 2))
        # A row of one value c: any code but 0 carries it exactly.
        constant = (span == 0) & (low != 0)
        scale = self._as_stored(np.where(constant, np.abs(low), scale), all_zero)
        quotient = -low / scale.astype(low.dtype)
        zero = integer.low + (integer.rounded(quotient) if self.round_zero else quotient)
        if self.clip_zero:
            zero = np.clip(zero, integer.low, integer.high)
        return scale, np.where(all_zero, max(0, integer.low), zero).astype(scale.dtype)

    def _as_stored(self, scale: NDArray[Any], all_zero: Bools) -> Floats:
        """Return the scales within the limits, rounded as they are stored, 1 for zeros."""
        least = max(self.smallest_scale, float(finfo(self.stored.numpy).smallest_normal))
        most = min(self.largest_scale, float(finfo(self.stored.numpy).max))
        kind = scale.dtype.type
        kept = np.where(all_zero, kind(1), np.clip(scale, kind(least), kind(most)))
        return rounded_to(kept, self.stored)

    def _reach_in(self, form: Format) -> float:
        if isinstance(self.reach, float | int):
            return float(self.reach)
        if self.reach == "half-range":
            integer = _require_integer(form, "a rule that reaches half the range")
            return (integer.high - integer.low) / 2
        if isinstance(form, Integer):
            return float(form.high if form.signed else (1 << (form.bits - 1)) - 1)
        return form.largest


MSMODELSLIM = ScaleRule(
    smallest_scale=float(np.finfo(np.float32).eps), zero_first=True, compute=DType.F32
)
"""absmax / (2^(b-1) - 1) on [-2^(b-1), 2^(b-1) - 1]; `asymmetric` of it includes zero."""
OPTIQUANT = ScaleRule(smallest_scale=1e-5, include_zero=False, compute=DType.F32)
"""absmax / (2^(b-1) - 1) with `Integer(bits, narrow=True)`; asymmetric on all codes."""
FULL_RANGE = ScaleRule(reach="half-range", compute=DType.F32)
"""absmax / (2^b - 1) * 2 on all codes: IST-DASLab GPTQ and compressed-tensors."""
OMNIQUANT = ScaleRule(
    smallest_scale=1e-5, largest_scale=1e4, unsigned_zero="lower", compute=DType.F32
)
"""absmax / (2^(b-1) - 1) with `Integer(bits, signed=False)` and zero point 2^(b-1) - 1."""
DYNAMIC = ScaleRule(compute=DType.F32)
"""absmax / 127 per token while the model runs; zero rows are left alone."""
FP8_DYNAMIC = ScaleRule(smallest_magnitude=1e-4, compute=DType.F32)
"""max(absmax, 1e-4) / 448 per token and 128 channels, as DeepSeek quantizes activations."""


def _require_integer(form: Format, what: str) -> Integer:
    if isinstance(form, Integer):
        return form
    reason = f"{what} needs integer codes, and {form.name} has none"
    raise GraphError("bad-format", reason, hint="use a symmetric rule with reach `top` or a number")


def _require_finite(low: NDArray[Any], high: NDArray[Any]) -> None:
    wrong = ~(np.isfinite(low) & np.isfinite(high))
    if not wrong.any():
        return
    place = ", ".join(str(int(i)) for i in np.unravel_index(int(wrong.argmax()), low.shape))
    reason = (
        f"{int(wrong.sum())} of {wrong.size} scales are of values that are infinite or not "
        f"numbers; the first is [{place}] of {list(low.shape)}"
    )
    hint = "look for damage in the checkpoint or an overflow in calibration; nothing is replaced"
    raise GraphError("values-not-finite", reason, hint=hint)
