"""Scaled dot-product attention with scores summed over parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from ascendfx.ir.attend import attend, check_attention
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType

T = TypeVar("T")


class AttentionRoles(NamedTuple, Generic[T]):
    """Operands of `Attention` by what they are for: values, types, tensors.

    Attributes:
        queries: One per part.
        keys: One per part.
        values: Of all parts together.
        mask: None without.
    """

    queries: tuple[T, ...]
    keys: tuple[T, ...]
    values: T
    mask: T | None

    @property
    def operands(self) -> tuple[T, ...]:
        """In the order of the operation."""
        mask = () if self.mask is None else (self.mask,)
        return (*self.queries, *self.keys, self.values, *mask)


@dataclass(frozen=True, slots=True)
class Attention(Op):
    r"""Attention of every token over the tokens of the same sequence.

    .. math:: s_{t,h,j} = \mathrm{scale} \sum_i q^{(i)}_{t,h} \cdot k^{(i)}_{j,g(h)} + m_{t,h,j},
              \qquad y_{t,h} = \sum_j \mathrm{softmax}_j(s)\, v_{j,g(h)}

    Operands: ``q_1 .. q_p, k_1 .. k_p, v`` and, with ``masked``, ``mask``.

    =========  ======================  ====================================================
    operand    shape                   note
    =========  ======================  ====================================================
    q_i        ``[b, t, h, d_i]``      part ``i`` of the query
    k_i        ``[b, s, g, d_i]``      ``g`` divides ``h``: head ``j`` reads ``j // (h / g)``
    v          ``[b, s, g, dv]``       each operand may have its own ``g``
    mask       ``[b|1, h|1, t|1, s]``  added to the scores
    result     ``[b, t, h, dv]``       format of ``q_1``
    =========  ======================  ====================================================

    Numerics: scores, maximum and sum in float32; one rounding at the end.

    Attributes:
        parts: Number of query/key pairs.
        scale: Factor of the scores, captured from the model (for YaRN it includes mscale squared).
        causal: Token ``t`` sees tokens up to itself only.
        masked: Whether a mask operand follows ``v``.
    """

    mnemonic: ClassVar[str] = "attention"

    parts: int
    scale: float
    causal: bool = False
    masked: bool = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[b, t, h, dv]``.

        Raises:
            OpTypeError: The number of operands or their shapes do not fit.
        """
        if len(operands) != 2 * self.parts + 1 + self.masked:
            raise OpTypeError(f"attention: {len(operands)} operands do not fit {self.parts} parts")
        queries, keys, values, _ = self.roles(operands)
        return (check_attention("attention", queries, keys, values),)

    def roles(self, operands: Sequence[T]) -> AttentionRoles[T]:
        """Return operands, or what is known of each, by their roles."""
        queries, keys = operands[: self.parts], operands[self.parts : 2 * self.parts]
        values, *mask = operands[2 * self.parts :]
        return AttentionRoles(tuple(queries), tuple(keys), values, mask[0] if mask else None)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Attend."""
        queries, keys, values, mask = self.roles(operands)
        if mask is None:
            mask = np.zeros((1, 1, 1, 1))
        tokens, context = queries[0].shape[1], keys[0].shape[1]
        visible = np.ones((1, 1, tokens, context), bool)
        if self.causal:
            visible = np.tril(visible)
        return (attend(queries, keys, values, scale=self.scale, mask=mask, visible=visible),)
