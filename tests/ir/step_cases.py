"""Random operands of the operations that prepare the next step."""

import numpy as np
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import AdvanceRequests, AlignDrafts, ShiftTokens, VerifyDrafts
from ascendfx.ir.step_state import (
    HELD,
    OPTION_COLUMNS,
    RATE_ONE,
    RECENT_COLUMNS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
)

_VOCABULARY = 6
"""Few tokens, so that drafts and stop tokens are met often."""


@st.composite
def verify_case(
    draw: st.DrawFn, *, requests: int | None = None, drafts: int | None = None
) -> tuple[VerifyDrafts, list[Array]]:
    """Rows of which many agree with what was sampled."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    k = draw(st.integers(0, 8)) if drafts is None else drafts
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ids, sampled = random.integers(0, _VOCABULARY, (2, n, k + 1))
    agree = np.arange(k) < random.integers(0, k + 1, (n, 1))
    ids[:, 1:] = np.where(agree, sampled[:, :-1], ids[:, 1:])
    state = random.integers(0, 100, (n, STATE_COLUMNS))
    state[:, State.DRAFTED] = random.integers(0, k + 1, n)
    return VerifyDrafts(k), [ids.reshape(-1), sampled.reshape(-1), state]


@st.composite
def align_case(
    draw: st.DrawFn,
    *,
    requests: int | None = None,
    drafts: int | None = None,
    block: int | None = None,
) -> tuple[AlignDrafts, list[Array]]:
    """Places of which some have hardly begun, some do not run, some cross a block."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    k = draw(st.integers(1, 8)) if drafts is None else drafts
    size = draw(st.integers(1, 5)) if block is None else block
    width = draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    state = random.integers(0, 1000, (n, STATE_COLUMNS))
    state[:, State.LENGTH] = random.integers(0, width * size + 2, n)
    state[:, State.FINISHED] = random.integers(0, 6, n) * (random.random(n) < 0.3)
    table = random.integers(0, 1000, (n, width))
    return AlignDrafts(k, size), [
        random.integers(0, 99, n * (k + 1)),
        np.where(random.random((n, width)) < 0.1, -1, table),
        state,
        random.integers(0, k + 1, n),
        random.integers(100, 199, n),
        random.integers(200, 299, (n, RECENT_COLUMNS)),
    ]


@st.composite
def shift_case(
    draw: st.DrawFn, *, rows: int | None = None, requests: int | None = None
) -> tuple[ShiftTokens, list[Array]]:
    """Rows of requests of any length, one after the other; or of places with drafts."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = random.integers(1, 9, n)
    if rows is not None:
        cuts = np.sort(random.choice(np.arange(1, rows), n - 1, replace=False))
        lengths = np.diff(np.concatenate([[0], cuts, [rows]]))
    row_request = np.repeat(np.arange(n), lengths)
    ends = np.cumsum(lengths)
    last_rows = ends - 1 - random.integers(0, 3, n).clip(max=lengths - 1)
    ids = random.integers(0, 99, len(row_request))
    operands = [ids, last_rows, row_request, random.integers(100, 199, n)]
    known, width = draw(st.booleans()), draw(st.integers(1, 8))
    depth = draw(st.integers(0, width - 1))
    if known:
        operands.append(random.integers(-1, 2, (n, width)) * random.integers(1, 300, (n, 1)))
    return ShiftTokens(depth, known=known), operands


@st.composite
def advance_case(
    draw: st.DrawFn,
    *,
    requests: int | None = None,
    drafts: int | None = None,
    block: int | None = None,
) -> tuple[AdvanceRequests, list[Array]]:
    """Places of which some do not run, some stop, some cross a block, some have penalties."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    k = draw(st.integers(0, 4)) if drafts is None else drafts
    size = draw(st.integers(1, 5)) if block is None else block
    # Few of each: another size is another kernel.
    width, steps = draw(st.sampled_from([1, 2, 6])), draw(st.sampled_from([1, 3]))
    drafting = draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = n * (k + 1)
    state = random.integers(0, 1000, (n, STATE_COLUMNS))
    state[:, State.LENGTH] = random.integers(0, width * size + 2, n)
    state[:, State.GENERATED] = random.integers(0, 5, n)
    state[:, State.LIMIT] = random.integers(1, 9, n)
    state[:, State.MINIMUM] = random.integers(0, 7, n)
    state[:, State.FINISHED] = random.integers(0, 6, n) * (random.random(n) < 0.3)
    state[:, State.DRAFTED] = random.integers(0, k + 1, n)
    state[:, State.DRAFTS] = random.integers(0, k + 2, n)
    state[:, State.PLACE] = random.permutation(n + 2)[:n]
    state[:, State.ADAPTIVE] = random.integers(0, 2, n)
    state[:, State.RATE] = random.choice([0, 15, 16, 30_000, 65_521, RATE_ONE], n)
    state[:, State.RATE] += random.integers(0, 2, n) * (state[:, State.RATE] < RATE_ONE)
    stops = np.where(random.random((n, STOP_COLUMNS)) < 0.1, random.integers(0, 6), -1)
    ids = random.integers(0, _VOCABULARY, rows)
    ids[random.random(rows) < 0.03] = -1
    new = random.integers(-1, _VOCABULARY, n)
    return AdvanceRequests(k, size), [
        ids,
        random.integers(0, 1000, rows),
        random.integers(-1, 1000, rows),
        np.where(random.random((n, width)) < 0.1, -1, random.integers(0, 1000, (n, width))),
        state,
        stops,
        random.integers(0, state[:, State.DRAFTED] + 1),
        new,
        random.integers(-1, _VOCABULARY, (steps, n, k + 2)),
        _step(random, steps),
        random.integers(0, 9, (n + 2, _VOCABULARY)),
        _penalties(random, n),
        *(random.integers(0, _VOCABULARY, (k if drafting else 0, n))),
    ]


def _step(random: np.random.Generator, steps: int) -> Array:
    """Return a number and rates that pay, next to those of places; or none that count."""
    step = random.choice([0, 1, 14, 30_000, 65_000, RATE_ONE, 2**31 - 1], STEP_COLUMNS)
    step[0] = random.integers(0, 3 * steps)
    if random.random() < 0.1:
        step[1] = HELD
    return step


def _penalties(random: np.random.Generator, n: int) -> Array:
    """Return options of which many have none, others one; other options never count."""
    options = random.standard_normal((n, OPTION_COLUMNS))
    options[:, Option.REPETITION] = random.choice([0.0, 1.0, 1.0, 1.25], n)
    options[:, Option.PRESENCE] = random.choice([0.0, 0.0, 0.5], n)
    options[:, Option.FREQUENCY] = random.choice([0.0, 0.0, -0.5], n)
    return options


def _two_accepted() -> tuple[Array, ...]:
    state = np.zeros((1, STATE_COLUMNS), np.int64)
    state[0, State.DRAFTED] = state[0, State.DRAFTS] = 2
    stops = np.full((1, STOP_COLUMNS), -1)
    emitted, step = np.zeros((1, 1, 4), np.int64), np.zeros(STEP_COLUMNS, np.int64)
    rows = np.array([6, 7, 8]), np.arange(3), np.arange(3)
    table, accepted, new = np.array([[0, 1]]), np.array([2]), np.array([9])
    counts, options = np.zeros((1, 10), np.int64), np.zeros((1, OPTION_COLUMNS))
    return *rows, table, state, stops, accepted, new, emitted, step, counts, options


ADVANCE = _two_accepted()
"""One place in blocks of 4 whose two drafts, 7 and 8, were accepted; 9 is new."""
