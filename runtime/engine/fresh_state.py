"""The row of ``state`` of a request that has done nothing yet."""

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.step_state import STATE_COLUMNS, State
from ascendfx.runtime.engine.sampling import Sampling


def fresh_state(
    sampling: Sampling, *, limit: int, minimum: int, drafts: int, adaptive: bool
) -> NDArray[np.int32]:
    """Return i32 ``[16]``, see `ascendfx.ir.step_state.State`.

    Args:
        sampling: How tokens are chosen; the row has its seed.
        limit: Most new tokens.
        minimum: No stop token is taken before so many; beyond the limit it is as good as the
            limit, which fits 32 bits.
        drafts: Of its first step.
        adaptive: Whether later steps, or the host, choose their number.
    """
    state = np.zeros(STATE_COLUMNS, np.int32)
    state[State.LIMIT] = limit
    state[State.MINIMUM] = min(minimum, limit)
    state[State.DRAFTS] = drafts
    state[State.ADAPTIVE] = adaptive
    sampling.write_seed(state)
    return state
