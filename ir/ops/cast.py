"""Change of the element format."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """The nearest value of another element format.

    Numerics: float to narrower float rounds to nearest even, float to integer truncates toward
    zero as PyTorch does. `reference` keeps floats exact and truncates only to integers. Kernels may
    compute on in the wider format, unless the result is widened again: see `kept_roundings`.
    To ``i8`` only whole numbers from -128 to 127 are converted, by a `Round` and by bounds before
    the cast: there the ways differ in which the chip (``CAST_RINT`` by way of half) and PyTorch
    treat other numbers.

    Attributes:
        dtype: Element format of the result.
    """

    mnemonic: ClassVar[str] = "cast"

    dtype: DType

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the operand's shape in the new format.

        Raises:
            OpTypeError: One format holds pairs of codes.
        """
        if DType.I4X2 in (self.dtype, operands[0].dtype):
            raise OpTypeError(
                f"cast: {operands[0]} cannot be cast to {self.dtype.value}",
                hint="pairs of codes are made by pack_codes and split_codes, and only multiplied",
            )
        return (TensorType(self.dtype, operands[0].shape),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Convert between integers, truth values and reals."""
        (a,) = operands
        if self.dtype.is_float:
            return (a if a.dtype == object else a.astype(np.float64),)
        if self.dtype is DType.BOOL:
            return (np.asarray(a != 0),)
        return (np.trunc(a).astype(np.int64) if a.dtype.kind == "f" else a.astype(np.int64),)
