"""One projection per head."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class HeadLinear(Op):
    r"""Projection of the last axis with a weight of its own for each head.

    .. math:: y_{b,h,n} = \sum_{k} x_{b,h,k} \, w_{h,n,k}

    ========  ===============  =================================
    operand   shape            note
    ========  ===============  =================================
    x         ``[*b, h, k]``   the head axis may be 1 (shared)
    w         ``[h, n, k]``    one ``[out, in]`` matrix per head
    result    ``[*b, h, n]``   format of ``x``
    ========  ===============  =================================

    Numerics: as `Linear`.
    """

    mnemonic: ClassVar[str] = "head_linear"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[*b, h, n]``.

        Raises:
            OpTypeError: Formats, ranks, heads or inner sizes do not fit.
        """
        x, w = operands
        if (
            w.rank != 3
            or x.rank < 2
            or x.shape[-1] != w.shape[2]
            or x.shape[-2] not in (1, w.shape[0])
        ):
            raise OpTypeError(
                f"head_linear: {x} does not fit the weight {w}, which is [heads, out, in]"
            )
        if x.dtype is not w.dtype:
            raise OpTypeError(f"head_linear: formats differ: {x.dtype.value} and {w.dtype.value}")
        return (x.with_shape((*x.shape[:-2], w.shape[0], w.shape[1])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Multiply without rounding."""
        x, w = operands
        return (
            (x[..., None, :] * w).sum(axis=-1)
            if x.dtype == object
            else np.einsum(
                "...hk,hnk->...hn", np.broadcast_to(x, (*x.shape[:-2], w.shape[0], x.shape[-1])), w
            ),
        )
