"""Which path of a draft tree the main model would have taken, too."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.places import fits_places, places_of
from ascendfx.ir.step_state import State
from ascendfx.ir.tensor_type import TensorType

MOST_NODES = 16
"""Rows of a place at most."""


@dataclass(frozen=True, slots=True)
class VerifyTree(Op):
    """The path of drafts that equal the sampled tokens, from the root, and the token behind it.

    Place ``b`` has ``n = len(parents)`` rows ``b * n + i``: row 0 is the root and carries the last
    emitted token, row ``i`` the draft at node ``i``, one of those that may follow the token of
    node ``parents[i]``. ``sampled`` is the token after each row. From a node, the path goes on to
    the first of its children whose token was sampled after the node.

    | operand, result | type |
    |---|---|
    | ``token_ids``, ``sampled`` | i32 ``[requests * n]`` |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` |
    | accepted | i32 ``[requests]``: drafts on the path; only nodes up to ``DRAFTED`` are valid |
    | last rows | i32 ``[requests]``: the row of the last accepted token |
    | new tokens | i32 ``[requests]``: the token sampled there |
    | path | i32 ``[requests, n]``: the node at each depth from the root, 0, on; then -1 |

    With the parents ``-1, 0, 1, ..`` of a chain, the first three are those of `VerifyDrafts`.

    Attributes:
        parents: Of each node; before it, and -1 of the root, which is node 0.
    """

    mnemonic: ClassVar[str] = "verify_tree"

    parents: tuple[int, ...]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return three tables with an element for each place, and the paths.

        Raises:
            OpTypeError: The parents are no tree, or shapes or formats do not fit.
        """
        token_ids, sampled, state = operands
        places, count = places_of(state), len(self.parents)
        in_order = all(0 <= parent < i + 1 for i, parent in enumerate(self.parents[1:]))
        if not 1 <= count <= MOST_NODES or self.parents[0] != -1 or not in_order:
            raise OpTypeError(f"verify_tree: {self.parents} are not the parents of 1 to 16 nodes")
        if places is None or token_ids != sampled or not fits_places(token_ids, places, count - 1):
            raise OpTypeError(
                f"verify_tree: rows {token_ids} and {sampled} do not fit {count} nodes of the "
                f"places {state}"
            )
        return places, places, places, places.with_shape((*places.shape, count))

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Go through the nodes once, because children stand behind their parents."""
        token_ids, sampled, state = operands
        places, count = np.arange(len(state)), len(self.parents)
        tokens, chosen = token_ids.reshape(-1, count), sampled.reshape(-1, count)
        node, accepted = np.zeros_like(places), np.zeros_like(places)
        path = np.full((len(state), count), -1)
        path[:, 0] = 0
        for child in range(1, count):
            follows = tokens[:, child] == chosen[places, node]
            valid = child <= state[:, State.DRAFTED]
            taken = (node == self.parents[child]) & follows & valid
            node = np.where(taken, child, node)
            accepted += taken
            path[places[taken], accepted[taken]] = child
        last_rows = places * count + node
        return accepted, last_rows, sampled[last_rows], path
