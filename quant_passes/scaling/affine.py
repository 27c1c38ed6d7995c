"""Scales and zero points of a tensor, and the way from numbers to codes and back."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.as_numbers import as_numbers
from ascendfx.quant_passes.formats.format import Codes, Floats, Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import Granularity, Shape
from ascendfx.quant_passes.scaling.pieces import Place, RowScales, as_rows, places, row_scales
from ascendfx.quant_passes.scaling.rounded_to import cast_to


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """``number = (code - zero) * scale``.

    Attributes:
        scale: Positive, of the shape that the granularity asks for.
        zero: Zero points of the same shape, whole or not; None if they are 0.
        granularity: Which values share a scale.
        zero_first: Whether the zero point is added before rounding (msModelSlim, HQQ) or after it
            (ONNX, IST-DASLab GPTQ); they differ only if it is not whole.
        compute: Format of the arithmetic.
        stored: Format in which the scales are stored; they are representable in it.

    Raises:
        GraphError: `bad-scale`: a scale is not positive and finite, or a zero point not finite;
            `bad-granularity`: zero points of another shape.
    """

    scale: Floats
    zero: Floats | None
    granularity: Granularity
    zero_first: bool = False
    compute: Literal[DType.BF16, DType.F32, DType.F64] = DType.F64
    stored: DType = DType.F32

    def __post_init__(self) -> None:
        if not np.all(np.isfinite(self.scale) & (self.scale > 0)):
            reason = "a scale is zero, negative, infinite or not a number"
            raise GraphError("bad-scale", reason, hint="rows of zeros take the scale 1")
        if self.zero is None:
            return
        if not np.all(np.isfinite(self.zero)):
            reason = "a zero point is infinite or not a number"
            raise GraphError("bad-scale", reason, hint="compute them with a ScaleRule")
        if self.zero.shape != self.scale.shape:
            reason = f"scales {list(self.scale.shape)} have zero points {list(self.zero.shape)}"
            raise GraphError("bad-granularity", reason, hint="every scale has one zero point")

    def quantize(self, values: NDArray[Any], form: Format) -> Codes:
        """Return the codes of the numbers over their scales, of the same shape.

        Raises:
            GraphError: `bad-granularity`: the scales are not those of this shape;
                `nan-has-no-code`; `not-numbers`.
        """
        numbers = as_numbers(values)
        rows, shape = as_rows(numbers), numbers.shape
        scales = self._by_row(shape)
        codes = np.empty(rows.shape, form.codes)
        for place in places(shape, self.granularity):
            codes[place] = self._quantize_piece(rows[place], place, scales, form)
        return codes.reshape(shape)

    def dequantize(self, codes: Codes, form: Format, dtype: DType = DType.F32) -> NDArray[Any]:
        """Return the numbers of the codes in a format of floats, rounded to it once.

        Raises:
            GraphError: `bad-granularity`; `code-out-of-range`.
        """
        rows, scales = as_rows(codes), self._by_row(codes.shape)
        numbers = np.empty(rows.shape, dtype.numpy)
        for place in places(codes.shape, self.granularity):
            piece = self._dequantize_piece(rows[place], place, scales, form)
            numbers[place] = cast_to(piece, dtype)
        return numbers.reshape(codes.shape)

    def squared_error(self, codes: Codes, form: Format, of: NDArray[Any]) -> float:
        """Return the sum of squares of what the codes are off the numbers ``of``, in float64.

        Raises:
            GraphError: `bad-granularity`: other shapes; `code-out-of-range`.
        """
        numbers = as_numbers(of)
        if codes.shape != numbers.shape:
            reason = f"codes {list(codes.shape)} are not those of {list(numbers.shape)} values"
            raise GraphError("bad-granularity", reason, hint="compare with what was quantized")
        code_rows, rows = as_rows(codes), as_rows(numbers)
        scales, total = self._by_row(codes.shape), 0.0
        for place in places(codes.shape, self.granularity):
            off = self._dequantize_piece(code_rows[place], place, scales, form) - rows[place]
            total += float(np.square(off, dtype=np.float64).sum())
        return total

    def _by_row(self, shape: Shape) -> tuple[RowScales, RowScales | None]:
        kind, zero = self.compute.numpy, None
        if self.zero is not None:
            zero = row_scales(self.zero.astype(kind), self.granularity, shape)
        return row_scales(self.scale.astype(kind), self.granularity, shape), zero

    def _quantize_piece(
        self,
        values: NDArray[Any],
        place: Place,
        scales: tuple[RowScales, RowScales | None],
        form: Format,
    ) -> Codes:
        scale, zero = scales
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scaled = values.astype(self.compute.numpy, copy=False) / scale.at(place)
        if zero is None:
            return form.encode(scaled)
        if not self.zero_first and isinstance(form, Integer):
            scaled = form.rounded(scaled)
        return form.encode(scaled + zero.at(place))

    def _dequantize_piece(
        self,
        codes: Codes,
        place: Place,
        scales: tuple[RowScales, RowScales | None],
        form: Format,
    ) -> NDArray[Any]:
        scale, zero = scales
        numbers = form.decode(codes).astype(self.compute.numpy, copy=False)
        if zero is not None:
            numbers = numbers - zero.at(place)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return numbers * scale.at(place)
