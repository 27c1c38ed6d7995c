"""How many rows each place of a decode step has where rows stand close together."""

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.size import named_size
from ascendfx.ir.step_state import Finish, State

PACKED_ROWS = named_size("packed_rows")
"""Rows of the main model; the device counts them anew in each step, see `PackRows`."""
KEEP_ROWS = (Finish.RUNS, Finish.NOT_FINITE)
"""Places whose drafts have rows: those that run, and those whose logits the host looks at."""


def rows_of_places(state: Array, drafts: int) -> Array:
    """Return the rows of each place ``[requests]``: one, and one for each of its drafts.

    Args:
        state: ``[requests, 16]``, see `ascendfx.ir.step_state.State`.
        drafts: Draft tokens of a place at most.
    """
    keeps = np.isin(state[:, State.FINISHED], KEEP_ROWS)
    return 1 + np.where(keeps, np.minimum(state[:, State.DRAFTED], drafts), 0)
