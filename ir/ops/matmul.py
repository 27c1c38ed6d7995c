"""Matrix product."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType, broadcast


@dataclass(frozen=True, slots=True)
class Matmul(Op):
    r"""Matrix product over the last two axes, broadcast over the leading ones.

    .. math:: y_{b,i,j} = \sum_{k} a_{b,i,k} \, c_{b,k,j}

    ========  =================  ===============================
    operand   shape              note
    ========  =================  ===============================
    a         ``[*b, m, k]``
    c         ``[*b, k, n]``     leading axes broadcast
    result    ``[*b, m, n]``     same element format as ``a``
    ========  =================  ===============================

    Numerics: products are summed in float32 and rounded once, as the cube unit does.
    """

    mnemonic: ClassVar[str] = "matmul"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[*b, m, n]``.

        Raises:
            OpTypeError: A rank is below two, the formats differ, the inner sizes differ, or the
                leading axes do not broadcast.
        """
        a, c = operands
        if a.rank < 2 or c.rank < 2:
            raise OpTypeError(f"matmul: both operands need at least two axes, got {a} and {c}")
        if a.dtype is not c.dtype:
            raise OpTypeError(f"matmul: formats differ: {a.dtype.value} and {c.dtype.value}")
        if a.shape[-1] != c.shape[-2]:
            raise OpTypeError(
                f"matmul: inner sizes differ: {a.shape[-1]} (last axis of {a}) "
                f"and {c.shape[-2]} (second-last axis of {c})"
            )
        batch = broadcast(a.shape[:-2], c.shape[:-2])
        if batch is None:
            raise OpTypeError(f"matmul: leading axes do not broadcast: {a} and {c}")
        return (a.with_shape((*batch, a.shape[-2], c.shape[-1])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Multiply without intermediate rounding."""
        a, c = operands
        return (a @ c,)
