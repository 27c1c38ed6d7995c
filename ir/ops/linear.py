"""Projection by a weight stored as in torch.nn.Linear."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.projection import pairs_product, product, projected_format
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Linear(Op):
    r"""Projection of the last axis, weight stored ``[out, in]``.

    .. math:: y_{b,n} = \sum_{k} x_{b,k} \, w_{n,k}

    ========  ============  =======================
    operand   shape         note
    ========  ============  =======================
    x         ``[*b, k]``   rows are tokens
    w         ``[n, k]``    torch.nn.Linear storage
    result    ``[*b, n]``   format of ``x``
    ========  ============  =======================

    Codes in ``i8`` have an exact product in ``i32``, of at most 131,071 terms; codes in ``i4x2`` as
    well, of as many pairs.

    Numerics: products are summed in float32 and rounded once, as the cube unit does.

    Attributes:
        pairs: Both operands are ``i4x2``, and ``k`` counts pairs.
    """

    mnemonic: ClassVar[str] = "linear"

    pairs: bool = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[*b, n]``.

        Raises:
            OpTypeError: Formats, ranks or inner sizes do not fit, or a sum of codes is too long.
        """
        x, w = operands
        if w.rank != 2 or x.rank < 1 or x.shape[-1] != w.shape[1]:
            raise OpTypeError(f"linear: {x} does not fit the weight {w}, which is [out, in]")
        dtype = projected_format("linear", x, w, pairs=self.pairs)
        return (TensorType(dtype, (*x.shape[:-1], w.shape[0])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Multiply without rounding."""
        x, w = operands
        return ((pairs_product if self.pairs else product)(x, w),)
