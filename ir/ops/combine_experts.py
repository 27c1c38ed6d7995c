"""Weighted sum of the experts' results for each token."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import product
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class CombineExperts(Op):
    """``out[r] = sum_j weights[r, j] * y[place[r * k + j]]``.

    ``y`` is ``[pairs, d]`` in the order of `DispatchExperts`, ``place [pairs]`` i32, ``weights``
    ``[rows, k]`` float; the result is ``[rows, d]`` in the format of ``y``.

    Numerics: float32 sums in ascending ``j``, one rounding at the end.
    """

    mnemonic: ClassVar[str] = "combine_experts"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[rows, d]``.

        Raises:
            OpTypeError: The number of pairs does not fit.
        """
        y, place, weights = operands
        if (
            y.rank != 2
            or weights.rank != 2
            or place.shape != (product(weights.shape),)
            or y.shape[:1] != place.shape
        ):
            raise OpTypeError(f"combine_experts: {y}, {place} and weights {weights} do not fit")
        return (y.with_shape((weights.shape[0], y.shape[1])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Add up."""
        y, place, weights = operands
        return ((y[place].reshape(*weights.shape, -1) * weights[..., None]).sum(axis=1),)
