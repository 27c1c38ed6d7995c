"""A tensor as codes, with all that is needed to read them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.format import Codes, Format
from ascendfx.quant_passes.scaling.affine import Affine


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedTensor:
    """Codes, one per value, with their scales and format.

    Attributes:
        codes: Of the shape of the tensor, as the format holds them.
        affine: Scales and zero points.
        format: What the codes mean.

    Raises:
        GraphError: `bad-granularity`: the scales are not those of this shape.
    """

    codes: Codes
    affine: Affine
    format: Format

    def __post_init__(self) -> None:
        self.affine.granularity.require(self.affine.scale, self.codes.shape)
        if self.codes.dtype != self.format.codes:
            reason = f"{self.format.name} has codes of {self.format.codes}, not {self.codes.dtype}"
            raise GraphError("code-out-of-range", reason, hint="unpack the codes first")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.codes.shape

    @property
    def bytes(self) -> int:
        """Size when stored: packed codes, scales, and zero points as wide as codes if whole."""
        affine = self.affine
        bits = self.codes.size * self.format.bits + 8 * affine.scale.size * affine.stored.bytes
        if affine.zero is not None:
            whole = np.array_equal(affine.zero, np.rint(affine.zero))
            bits += affine.zero.size * (self.format.bits if whole else 8 * affine.stored.bytes)
        return math.ceil(bits / 8)

    def decode(self, dtype: DType = DType.F32) -> NDArray[Any]:
        """Return the numbers that the codes stand for, rounded to ``dtype`` once.

        Raises:
            GraphError: `code-out-of-range`.
        """
        return self.affine.dequantize(self.codes, self.format, dtype)

    def squared_error(self, of: NDArray[Any]) -> float:
        """Return the sum of squares of the distance to the numbers ``of``, in float64.

        Raises:
            GraphError: `bad-granularity`: they have another shape; `code-out-of-range`.
        """
        return self.affine.squared_error(self.codes, self.format, of)
