"""Four-bit codes of a weight, two in a byte."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.code_pairs import half_of, pack_pairs
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class PackCodes(Op):
    r"""Whole numbers of four bits, two in a byte: ``y[.., j] = x[.., 2 j], x[.., 2 j + 1]``.

    ========  ================  ===========================================
    operand   shape             note
    ========  ================  ===========================================
    x         ``[*b, 2 h]``     whole numbers from -8 to 7, in a float format
    result    ``[*b, h]``       ``i4x2``, the first number in the low half
    ========  ================  ===========================================
    """

    mnemonic: ClassVar[str] = "pack_codes"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[*b, h]``.

        Raises:
            OpTypeError: The operand is no float, or its last axis is odd.
        """
        (x,) = operands
        return (TensorType(DType.I4X2, (*x.shape[:-1], half_of(self.mnemonic, x))),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Pack."""
        (x,) = operands
        return (pack_pairs(np.rint(x.astype(np.float64))),)
