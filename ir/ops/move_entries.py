"""Cached entries of an accepted path, moved to where those of a chain stand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.cache_block import slots_of
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.places import places_of
from ascendfx.ir.step_state import Finish, State
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class MoveEntries(Op):
    """Moves the entry of node ``path[b, j]`` of place ``b`` to that of a chain's row ``j``.

    A step writes the entries of a draft tree one after the other, node ``i`` of place ``b`` to the
    slot of ``LENGTH + i``. Once a path is accepted, its entry at depth ``j`` belongs to position
    ``LENGTH + j``. A path ascends, ``path[b, j] >= j``: no entry is moved to where one behind it on
    the path still stands, so that moving them in the order of the path and moving them at once is
    the same.

    | operand | type |
    |---|---|
    | ``cache_1 .. cache_c`` | ``[blocks, block, *d_i]`` |
    | ``block_table`` | i32 ``[requests, table_blocks]`` |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` |
    | ``path`` | i32 ``[requests, nodes]``, of `VerifyTree`: nodes from the root on, then -1 |
    | results | the caches, in place |

    Places that do not run move nothing, nor do entries without a slot. State is a value, as in
    `CacheWrite`.

    Attributes:
        nodes: Rows of a place.
        caches: How many caches hold entries of a row: one launch moves them all.
    """

    mnemonic: ClassVar[str] = "move_entries"

    nodes: int
    caches: int = 1

    @property
    def in_place(self) -> Mapping[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Every result is one of the leading operands."""
        return {i: i for i in range(self.caches)}

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the types of the caches.

        Raises:
            OpTypeError: Their number does not fit, or shapes or formats.
        """
        if self.caches < 1 or len(operands) != self.caches + 3:
            raise OpTypeError(
                f"move_entries: {len(operands)} operands do not fit {self.caches} caches"
            )
        *caches, table, state, path = operands
        places = places_of(state)
        if (
            places is None
            or self.nodes < 1
            or path != places.with_shape((*places.shape, self.nodes))
        ):
            raise OpTypeError(
                f"move_entries: paths {path} do not fit {self.nodes} nodes of the places {state}"
            )
        rows = (*places.shape, table.shape[-1]) if table.rank else ()
        if table != TensorType(DType.I32, rows):
            raise OpTypeError(f"move_entries: the table {table} does not fit the places {state}")
        first = caches[0]
        for cache in caches:
            same = cache.shape[:2] == first.shape[:2] and cache.dtype is first.dtype
            if cache.rank < 2 or not same:
                raise OpTypeError(f"move_entries: {cache} is no cache, or not one like {first}")
        return tuple(caches)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Move all entries at once."""
        *caches, table, state, path = operands
        block = caches[0].shape[1]
        length, runs = state[:, State.LENGTH, None], state[:, State.FINISHED, None] == Finish.RUNS
        rows = np.arange(self.nodes)
        moved = runs & (path > rows)
        source = slots_of(table, length + np.where(moved, path, 0), block)
        target = slots_of(table, length + np.broadcast_to(rows, path.shape), block)
        moved &= (source >= 0) & (target >= 0)

        def changed(cache: Array) -> Array:
            before = cache.reshape(-1, *cache.shape[2:])
            after = before.copy()
            after[target[moved]] = before[source[moved]]
            return after.reshape(cache.shape)

        return tuple(map(changed, caches))
