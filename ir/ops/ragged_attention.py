"""Attention of single tokens over the cached tokens of their requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from ascendfx.ir.attend import attend, check_attention
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType

T = TypeVar("T")


class RaggedRoles(NamedTuple, Generic[T]):
    """Operands of `RaggedAttention` by what they are for: values, types, tensors.

    Attributes:
        queries: One per part.
        keys: One per part.
        values: Of all parts together.
        positions: Of each row.
        row_request: Request of each row.
    """

    queries: tuple[T, ...]
    keys: tuple[T, ...]
    values: T
    positions: T
    row_request: T

    @property
    def operands(self) -> tuple[T, ...]:
        """In the order of the operation."""
        return (*self.queries, *self.keys, self.values, self.positions, self.row_request)


@dataclass(frozen=True, slots=True)
class RaggedAttention(Op):
    r"""`Attention` for serving: each row belongs to a request and has a position in it.

    Row ``r`` attends tokens ``0 .. positions[r]`` of request ``row_request[r]``. Operands:
    ``q_1 .. q_p, k_1 .. k_p, v, positions, row_request``.

    ============  =============================  =====================================
    operand       shape                          note
    ============  =============================  =====================================
    q_i           ``[rows, h, d_i]``             part ``i`` of the query
    k_i           ``[requests, context, g, d]``  ``g`` divides ``h``
    v             ``[requests, context, g, dv]``
    positions     ``[rows]`` i32                 own position; the token itself is seen
    row_request   ``[rows]`` i32
    result        ``[rows, h, dv]``              format of ``q_1``
    ============  =============================  =====================================

    Attributes:
        parts: Number of query/key pairs.
        scale: Factor of the scores.
    """

    mnemonic: ClassVar[str] = "ragged_attention"

    parts: int
    scale: float

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[rows, h, dv]``.

        Raises:
            OpTypeError: The number of operands or their shapes do not fit.
        """
        p = self.parts
        if len(operands) != 2 * p + 3:
            raise OpTypeError(f"ragged_attention: {len(operands)} operands do not fit {p} parts")
        queries, keys, values, positions, row_request = self.roles(operands)
        rows = TensorType(DType.I32, operands[0].shape[:1])
        if positions != rows or row_request != rows:
            raise OpTypeError(f"ragged_attention: {positions} and {row_request} must be {rows}")
        if any(q.rank != 3 for q in queries):
            raise OpTypeError(f"ragged_attention: queries are [rows, h, d], got {operands[0]}")
        batched = [q.with_shape((1, *q.shape)) for q in queries]
        result = check_attention(self.mnemonic, batched, keys, values)
        return (result.with_shape(result.shape[1:]),)

    def roles(self, operands: Sequence[T]) -> RaggedRoles[T]:
        """Return operands, or what is known of each, by their roles."""
        queries, keys = operands[: self.parts], operands[self.parts : 2 * self.parts]
        values, positions, row_request = operands[2 * self.parts :]
        return RaggedRoles(tuple(queries), tuple(keys), values, positions, row_request)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Attend row by row."""
        queries, keys, values, positions, requests = self.roles(operands)
        rows = [
            attend(
                [q[None, r : r + 1] for q in queries],
                [k[request : request + 1, : position + 1] for k in keys],
                values[request : request + 1, : position + 1],
                scale=self.scale,
                mask=np.zeros((1, 1, 1, 1)),
                visible=np.ones((1, 1, 1, 1), bool),
            )
            for r, (position, request) in enumerate(zip(positions, requests, strict=True))
        ]
        return (np.concatenate(rows, axis=1)[0],)
