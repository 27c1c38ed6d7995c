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
        ancestors: Of each row in a draft tree; None without.
    """

    queries: tuple[T, ...]
    keys: tuple[T, ...]
    values: T
    positions: T
    row_request: T
    ancestors: T | None

    @property
    def operands(self) -> tuple[T, ...]:
        """In the order of the operation."""
        tree = () if self.ancestors is None else (self.ancestors,)
        return (*self.queries, *self.keys, self.values, self.positions, self.row_request, *tree)


@dataclass(frozen=True, slots=True)
class RaggedAttention(Op):
    r"""`Attention` for serving: each row belongs to a request and has a position in it.

    Row ``r`` attends tokens ``0 .. positions[r]`` of request ``row_request[r]``. Operands:
    ``q_1 .. q_p, k_1 .. k_p, v, positions, row_request`` and, with ``tree``, ``ancestors``.

    ============  =============================  =====================================
    operand       shape                          note
    ============  =============================  =====================================
    q_i           ``[rows, h, d_i]``             part ``i`` of the query
    k_i           ``[requests, context, g, d]``  ``g`` divides ``h``
    v             ``[requests, context, g, dv]``
    positions     ``[rows]`` i32                 own position; the token itself is seen
    row_request   ``[rows]`` i32
    ancestors     ``[rows]`` i32                 a set of nodes; node ``i`` is bit ``i``
    result        ``[rows, h, dv]``              format of ``q_1``
    ============  =============================  =====================================

    With ``tree``, the newest tokens of a request are nodes of a tree: node ``i`` is the token at
    place ``n + i`` of the context, wherever it stands in the text, and ``ancestors[r]`` holds the
    nodes that row ``r`` sees, itself included. They follow each other from its root, so that the
    row's position tells ``n``: it sees ``positions[r] + 1`` tokens, which are ``0 .. n - 1`` and
    those nodes, in this order. A chain is the tree whose row ``i`` has ``2^(i+1) - 1``; that, or no
    ancestors at all, is the operation without ``tree``.

    Attributes:
        parts: Number of query/key pairs.
        scale: Factor of the scores.
        tree: Whether ``ancestors`` follows.
    """

    mnemonic: ClassVar[str] = "ragged_attention"

    parts: int
    scale: float
    tree: bool = False

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[rows, h, dv]``.

        Raises:
            OpTypeError: The number of operands or their shapes do not fit.
        """
        p = self.parts
        if len(operands) != 2 * p + 3 + self.tree:
            raise OpTypeError(f"ragged_attention: {len(operands)} operands do not fit {p} parts")
        queries, keys, values, positions, row_request, ancestors = self.roles(operands)
        rows = TensorType(DType.I32, operands[0].shape[:1])
        if positions != rows or row_request != rows:
            raise OpTypeError(f"ragged_attention: {positions} and {row_request} must be {rows}")
        if ancestors not in (None, rows):
            raise OpTypeError(f"ragged_attention: the ancestors {ancestors} must be {rows}")
        if any(q.rank != 3 for q in queries):
            raise OpTypeError(f"ragged_attention: queries are [rows, h, d], got {operands[0]}")
        batched = [q.with_shape((1, *q.shape)) for q in queries]
        result = check_attention(self.mnemonic, batched, keys, values)
        return (result.with_shape(result.shape[1:]),)

    def roles(self, operands: Sequence[T]) -> RaggedRoles[T]:
        """Return operands, or what is known of each, by their roles."""
        queries, keys = operands[: self.parts], operands[self.parts : 2 * self.parts]
        values, positions, row_request, *tree = operands[2 * self.parts :]
        ancestors = tree[0] if tree else None
        return RaggedRoles(tuple(queries), tuple(keys), values, positions, row_request, ancestors)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Attend row by row."""
        queries, keys, values, positions, requests, ancestors = self.roles(operands)
        rows = [
            attend(
                [q[None, r : r + 1] for q in queries],
                [k[request : request + 1][:, seen] for k in keys],
                values[request : request + 1][:, seen],
                scale=self.scale,
                mask=np.zeros((1, 1, 1, 1)),
                visible=np.ones((1, 1, 1, 1), bool),
            )
            for r, (request, seen) in enumerate(
                zip(requests, seen_places(positions, ancestors), strict=True)
            )
        ]
        return (np.concatenate(rows, axis=1)[0],)


def seen_places(positions: Array, ancestors: Array | None) -> Sequence[Array | slice]:
    """Return where the tokens stand that each row sees, in the order of the text."""
    if ancestors is None:
        return [slice(0, position + 1) for position in positions]
    return [_in_tree(*numbers) for numbers in zip(positions, ancestors, strict=True)]


def _in_tree(position: int, ancestors: int) -> Array:
    nodes = [i for i in range(int(ancestors).bit_length()) if ancestors >> i & 1]
    before = int(position) + 1 - len(nodes)
    return np.concatenate([np.arange(before), before + np.array(nodes, np.int64)])
