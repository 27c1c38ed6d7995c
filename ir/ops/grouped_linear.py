"""One projection per group of rows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.projection import pairs_product, product, projected_format
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class GroupedLinear(Op):
    r"""Projection of rows sorted by group, each group with its own weight.

    .. math:: y_{p,b,n} = \sum_k x_{p,b,k} \, w_{e(p),n,k}, \quad
              e(p) = |\{e : \mathrm{ends}_e \le p\}|

    ========  ===============  =================================================
    operand   shape            note
    ========  ===============  =================================================
    x         ``[p, *b, k]``   rows of group 0 first
    w         ``[e, n, k]``    one ``[out, in]`` matrix per group
    ends      ``[e]``          integers: number of rows in groups 0..e inclusive
    result    ``[p, *b, n]``   rows behind the last end are zero
    ========  ===============  =================================================

    Numerics: as `Linear`.

    Attributes:
        pairs: As of `Linear`.
    """

    mnemonic: ClassVar[str] = "grouped_linear"

    pairs: bool = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[p, *b, n]``.

        Raises:
            OpTypeError: Formats, ranks or sizes do not fit, or a sum of codes is too long.
        """
        x, w, ends = operands
        fits = x.rank >= 2 and w.rank == 3 and x.shape[-1] == w.shape[2]
        if not fits or ends.shape != (w.shape[0],):
            raise OpTypeError(f"grouped_linear: {x}, weight {w} and ends {ends} do not fit")
        dtype = projected_format("grouped_linear", x, w, pairs=self.pairs)
        return (TensorType(dtype, (*x.shape[:-1], w.shape[1])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Multiply group by group."""
        x, w, ends = operands
        multiply = pairs_product if self.pairs else product
        y = np.zeros((*x.shape[:-1], w.shape[1]), x.dtype)
        first = 0
        for group, last in enumerate(int(e) for e in ends):
            y[first:last] = multiply(x[first:last], w[group])
            first = last
        return (y,)
