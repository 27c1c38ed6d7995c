"""Rows stored in a paged cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class CacheWrite(Op):
    """The cache with ``cache[slot // block, slot % block] = x[r]`` for ``slot = slots[r]``.

    ``cache`` is ``[blocks, block, *d]``, ``slots`` is ``[rows]`` i32 (negative: not stored), ``x``
    is ``[rows, *d]``. State is a value: the result is the new cache.
    """

    mnemonic: ClassVar[str] = "cache_write"
    in_place: ClassVar[Mapping[int, int]] = {0: 0}

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of the cache.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        cache, slots, x = operands
        fits = cache.rank >= 2 and x.shape == (*slots.shape, *cache.shape[2:]) and slots.rank == 1
        if not fits or x.dtype is not cache.dtype or slots.dtype is not DType.I32:
            raise OpTypeError(
                f"cache_write: slots {slots} and rows {x} do not fit the cache {cache}"
            )
        return (cache,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Store."""
        cache, slots, x = operands
        flat = cache.reshape(-1, *cache.shape[2:]).copy()
        kept = slots >= 0
        flat[slots[kept]] = x[kept]
        return (flat.reshape(cache.shape),)
