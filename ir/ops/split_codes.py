"""Codes of inputs as two digits of four bits."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.code_pairs import half_of, pack_pairs
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType

LARGEST_SPLIT = 119
"""``16 * 7 + 7``: the largest code that two digits of four bits hold; the smallest is -136."""


@dataclass(frozen=True, slots=True)
class SplitCodes(Op):
    r"""The digits of whole numbers, ``x = 16 high + low``, both from -8 to 7.

    .. math:: \mathrm{high} = \lfloor (x + 8) / 16 \rfloor, \quad
              \mathrm{low} = x - 16\,\mathrm{high}

    ========  ================  =======================================================
    operand   shape             note
    ========  ================  =======================================================
    x         ``[*b, 2 h]``     whole numbers from -136 to 119, in a float format
    result    ``[*b, 2, h]``    ``i4x2``, packed as by `PackCodes`; the high digits first
    ========  ================  =======================================================

    So a product of codes of eight bits by codes of four is one of the digits, ``16 a + b`` of the
    two results: exact, and the cube unit takes both factors in four bits.
    """

    mnemonic: ClassVar[str] = "split_codes"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[*b, 2, h]``.

        Raises:
            OpTypeError: The operand is no float, or its last axis is odd.
        """
        (x,) = operands
        return (TensorType(DType.I4X2, (*x.shape[:-1], 2, half_of(self.mnemonic, x))),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Split and pack."""
        (x,) = operands
        codes = np.rint(x.astype(np.float64)).astype(np.int64)
        high = codes + 8 >> 4
        return (np.stack([pack_pairs(high), pack_pairs(codes - 16 * high)], axis=-2),)
