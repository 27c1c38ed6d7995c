"""Cached entries of an accepted path, moved to where those of a chain stand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops.verify_drafts import places_of
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
    | ``cache`` | ``[blocks, block, *d]`` |
    | ``block_table`` | i32 ``[requests, table_blocks]`` |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` |
    | ``path`` | i32 ``[requests, nodes]``, of `VerifyTree`: nodes from the root on, then -1 |
    | result | the cache, in place |

    Places that do not run move nothing, nor do entries without a slot. State is a value, as in
    `CacheWrite`.

    Attributes:
        nodes: Rows of a place.
    """

    mnemonic: ClassVar[str] = "move_entries"
    in_place: ClassVar[Mapping[int, int]] = {0: 0}

    nodes: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of the cache.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        cache, table, state, path = operands
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
        if cache.rank < 2 or table != TensorType(DType.I32, rows):
            raise OpTypeError(
                f"move_entries: the table {table} of the places {state} does not fit the cache "
                f"{cache}"
            )
        return (cache,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Move all entries at once."""
        cache, table, state, path = operands
        block = cache.shape[1]
        length, runs = state[:, State.LENGTH, None], state[:, State.FINISHED, None] == Finish.RUNS

        def slots(places: Array) -> Array:
            column, offset = np.divmod(places, block)
            has = column < table.shape[1]
            blocks = np.take_along_axis(table, np.where(has, column, 0), axis=1)
            return np.where(has & (blocks >= 0), blocks * block + offset, -1)

        rows = np.arange(self.nodes)
        moved = runs & (path > rows)
        source = slots(length + np.where(moved, path, 0))
        target = slots(length + np.broadcast_to(rows, path.shape))
        moved &= (source >= 0) & (target >= 0)
        flat = cache.reshape(-1, *cache.shape[2:])
        changed = flat.copy()
        changed[target[moved]] = flat[source[moved]]
        return (changed.reshape(cache.shape),)
