"""Columns of updates are checked against the updates."""

from itertools import pairwise

import numpy as np

from ascendfx.runtime.engine.updates import Updates


def assert_columns_tell(updates: Updates) -> None:
    """Check that columns and updates are the same."""
    starts = [0, *updates.ends.tolist()]
    parts = [updates.tokens[a:b].tolist() for a, b in pairwise(starts)]
    assert updates.ids.tolist() == [each.request for each in updates]
    assert parts == [list(each.token_ids) for each in updates]
    assert starts[-1] == updates.tokens.size
    assert updates.ended == tuple(each for each in updates if each.finish_reason)
    assert updates.ids.dtype == np.int64
    assert updates.ends.dtype == updates.tokens.dtype == np.int32
