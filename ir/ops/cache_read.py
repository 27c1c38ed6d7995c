"""The cached tokens of each request, in order."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim, bind_size
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class CacheRead(Op):
    """``y[q, t] = cache[table[q, t // block], t % block]`` for ``t < context``.

    ``cache`` is ``[blocks, block, *d]``, ``table`` is ``[requests, n]`` i32. Tokens behind a
    request's own length are whatever the cache holds; attention does not look at them.

    Attributes:
        context: Number of tokens to read per request, the longest of the step.
    """

    mnemonic: ClassVar[str] = "cache_read"

    context: Dim

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return ``[requests, context, *d]``.

        Raises:
            OpTypeError: The table is no ``[requests, n]`` of i32, or the cache has no blocks.
        """
        cache, table = operands
        if cache.rank < 2 or table.rank != 2 or table.dtype is not DType.I32:
            raise OpTypeError(f"cache_read: the table {table} does not fit the cache {cache}")
        return (cache.with_shape((table.shape[0], self.context, *cache.shape[2:])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Collect."""
        cache, table = operands
        tokens = np.arange(bind_size(self.context, {}))
        return (cache[table[:, tokens // cache.shape[1]], tokens % cache.shape[1]],)
