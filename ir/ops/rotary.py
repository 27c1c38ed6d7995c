"""Rotary position embedding."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType, broadcast


@dataclass(frozen=True, slots=True)
class Rotary(Op):
    r"""Rotation of pairs of the last axis: ``(u, v) -> (u cos - v sin, v cos + u sin)``.

    Source: Su et al., arXiv 2104.09864, eq. 34. ``x`` is ``[*b, 2 h]``; ``cos`` and ``sin`` are
    ``[*c, h]`` and broadcast over the leading axes of ``x``. Pair ``i`` is ``x[2i], x[2i+1]`` when
    interleaved, else ``x[i], x[i+h]``; the result may use the other layout than the operand, as
    the DeepSeek-V3 of transformers does.

    Numerics: products and sums in float32, one rounding at the end.

    Attributes:
        interleaved_in: Layout of the pairs in ``x``.
        interleaved_out: Layout of the pairs in the result.
    """

    mnemonic: ClassVar[str] = "rotary"

    interleaved_in: bool
    interleaved_out: bool

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of ``x``.

        Raises:
            OpTypeError: The tables do not have half the columns, or do not broadcast.
        """
        x, cos, sin = operands
        half = cos.shape[-1] if cos.rank else 0
        if cos != sin or not isinstance(half, int) or x.rank < 1 or x.shape[-1] != 2 * half:
            raise OpTypeError(f"rotary: {x} needs tables of half its columns, got {cos} and {sin}")
        if x.dtype is not cos.dtype or broadcast(x.shape[:-1], cos.shape[:-1]) != x.shape[:-1]:
            raise OpTypeError(f"rotary: the tables {cos} do not broadcast over {x}")
        return (x,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Rotate."""
        x, cos, sin = operands
        half = x.shape[-1] // 2
        u, v = (
            (x[..., ::2], x[..., 1::2]) if self.interleaved_in else (x[..., :half], x[..., half:])
        )
        pair = (u * cos - v * sin, v * cos + u * sin)
        if self.interleaved_out:
            return (np.stack(pair, axis=-1).reshape(x.shape),)
        return (np.concatenate(pair, axis=-1),)
