"""A weight of two levels: int8 per channel, and in it groups of fewer bits (QServe)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.as_numbers import as_numbers
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.rounded_to import cast_to


@dataclass(frozen=True, slots=True, eq=False)
class ProgressiveTensor:
    """``number = (code - zero) * group_scale * channel_scale``; the first product is an int8.

    Attributes:
        codes: ``[out, in]``, unsigned.
        group_scale: Whole numbers from 1 on, ``[out, in / group]``, uint8.
        zero: Codes that stand for 0, ``[out, in / group]``, uint8.
        channel_scale: ``[out, 1]``, float32.
        format: Of the codes.

    Raises:
        GraphError: `bad-granularity`: shapes that do not fit.
    """

    codes: NDArray[np.uint8]
    group_scale: NDArray[np.uint8]
    zero: NDArray[np.uint8]
    channel_scale: NDArray[np.float32]
    format: Integer

    def __post_init__(self) -> None:
        out, groups = self.group_scale.shape
        fits = self.zero.shape == (out, groups) and self.channel_scale.shape == (out, 1)
        if not fits or self.codes.shape[0] != out or (groups and self.codes.shape[1] % groups):
            reason = f"codes {list(self.codes.shape)} do not fit {groups} groups in {out} rows"
            raise GraphError("bad-granularity", reason, hint="make the tensor with `Qserve`")

    @property
    def shape(self) -> tuple[int, ...]:
        """``[out, in]``."""
        return self.codes.shape

    @property
    def bytes(self) -> int:
        """Size when stored: codes and zero points packed, a byte per group, a float per row."""
        bits = (self.codes.size + self.zero.size) * self.format.bits
        return -(-bits // 8) + self.group_scale.size + 4 * self.channel_scale.size

    def middle(self) -> NDArray[np.int16]:
        """Return the integers between both levels, ``[out, in]``; of `Qserve` they fit int8."""
        size = self.codes.shape[1] // max(1, self.zero.shape[1])
        zero = np.repeat(self.zero.astype(np.int16), size, axis=1)
        return (self.codes - zero) * np.repeat(self.group_scale.astype(np.int16), size, axis=1)

    def decode(self, dtype: DType = DType.F32) -> NDArray[Any]:
        """Return the numbers that the codes stand for."""
        return cast_to(self.middle() * self.channel_scale.astype(np.float64), dtype)

    def squared_error(self, of: NDArray[Any]) -> float:
        """Return the sum of squares of the distance to the numbers ``of``, in float64."""
        return float(np.square(self.decode(DType.F64) - as_numbers(of)).sum())
