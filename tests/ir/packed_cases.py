"""Random places whose rows stand together, as `pack_rows` leaves them."""

import numpy as np
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import AlignDrafts, PackRows, VerifyDrafts
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.step_state import SIZE_COLUMNS, STATE_COLUMNS, Finish, State
from tests.ir.step_cases import align_case, verify_case


@st.composite
def pack_case(
    draw: st.DrawFn, *, requests: int | None = None, drafts: int | None = None
) -> tuple[PackRows, list[Array]]:
    """Places of which some draft nothing, some have ended and one may have found no number."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    k = draw(st.integers(0, 8)) if drafts is None else drafts
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = random.integers(0, 1000, (3, n * (k + 1)))
    sizes = random.integers(0, 99, SIZE_COLUMNS)
    return PackRows(k, n * (k + 1), draw(st.sampled_from((0, 8)))), [
        *rows,
        states(random, n, k),
        sizes,
    ]


def states(random: np.random.Generator, requests: int, drafts: int) -> Array:
    """Return states of places that run with any number of drafts, or do not."""
    state = random.integers(0, 1000, (requests, STATE_COLUMNS))
    state[:, State.DRAFTED] = random.integers(0, drafts + 2, requests)
    state[:, State.FINISHED] = random.choice(list(Finish), requests)
    state[random.random(requests) < 0.5, State.FINISHED] = Finish.RUNS
    return state


def packed(values: Array, state: Array, drafts: int) -> tuple[Array, Array]:
    """Return the rows that `pack_rows` keeps, and the first of each place."""
    each = rows_of_places(state, drafts)
    kept = np.arange(drafts + 1) < each[:, None]
    return values.reshape(len(state), drafts + 1)[kept], np.cumsum(each) - each


@st.composite
def packed_verify_case(
    draw: st.DrawFn, *, requests: int | None = None, drafts: int | None = None
) -> tuple[VerifyDrafts, list[Array], list[Array]]:
    """Rows of which many agree with what was sampled; the same rows with placeholders."""
    op, (ids, sampled, state) = draw(verify_case(requests=requests, drafts=drafts))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    state = states(random, len(state), op.drafts)
    few, starts = packed(ids, state, op.drafts)
    operands = [few, packed(sampled, state, op.drafts)[0], state, starts]
    return VerifyDrafts(op.drafts, packed=True), operands, [ids, sampled, state]


@st.composite
def packed_align_case(
    draw: st.DrawFn,
    *,
    requests: int | None = None,
    drafts: int | None = None,
    block: int | None = None,
) -> tuple[AlignDrafts, list[Array], AlignDrafts]:
    """Places with any number of drafts; the operation for rows with placeholders."""
    op, operands = draw(align_case(requests=requests, drafts=drafts, block=block))
    state = operands[2]
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    state[:, State.DRAFTED] = random.integers(0, op.drafts + 1, len(state))
    _, starts = packed(operands[0], state, op.drafts)
    room = len(state) * op.rows
    return AlignDrafts(op.drafts, op.block, packed=room), [*operands, starts], op
