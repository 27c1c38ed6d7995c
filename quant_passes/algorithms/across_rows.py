"""Weights whose groups run across rows: the layout of HQQ with axis 0."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor


@dataclass(frozen=True, slots=True, eq=False)
class AcrossRows:
    """A weight ``[out, in]`` by groups: of ``g`` groups, group ``i`` has weights ``i, i + g ...``.

    Attributes:
        groups: ``[g, size]``, a scale per row.
        shape: ``[out, in]``.
    """

    groups: QuantizedTensor
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size when stored."""
        return self.groups.bytes

    def decode(self, dtype: DType = DType.F32) -> NDArray[Any]:
        """Return the numbers that the codes stand for."""
        return np.ascontiguousarray(self.groups.decode(dtype).T).reshape(self.shape)

    def squared_error(self, of: NDArray[Any]) -> float:
        """Return the sum of squares of the distance to the numbers ``of``, in float64."""
        return self.groups.squared_error(groups_across_rows(of, self.groups.shape[1]))


def groups_across_rows(weight: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the groups ``[g, size]`` of a weight.

    Raises:
        GraphError: `bad-granularity`: groups of this size do not divide the weight.
    """
    if size < 1 or weight.size % size:
        reason = f"groups of {size} do not divide the {weight.size} weights of {list(weight.shape)}"
        raise GraphError("bad-granularity", reason, hint="take a divisor")
    return np.reshape(weight, (size, weight.size // size)).T
