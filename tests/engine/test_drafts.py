"""Figures of drafts, the warning when they are useless, and the choice of their number."""

import warnings
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import State
from ascendfx.runtime.engine.draft_policy import DraftPolicy, ExpectedGain
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.metrics import WINDOW, AcceptanceWarning, Tally, add_group, no_sums
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.serving_config import ServingConfig
from tests.engine.fake_executor import FakeExecutor
from tests.engine.toy_model import VOCABULARY, expected


def engine(right: float, drafts: int = 3, places: int = 4) -> Engine:
    device = FakeExecutor(
        places=places, drafts=drafts, blocks=200, table_blocks=50, right=right, chunk=16
    )
    return Engine(ServingConfig(VOCABULARY, frozenset(), device.block), device)


def serve(served: Engine, count: int = 8, limit: int = 60, drafts: int | None = None) -> None:
    """Run prompts whose texts do not break."""
    requests = [
        Request(prompt=[i % 12, i % 11], max_new_tokens=limit, draft_tokens=drafts)
        for i in range(count)
    ]
    served.start(requests)
    while served.busy:
        served.step(4)


def unbroken(count: int, limit: int = 60) -> list[Request]:
    """Return requests that end at their limit."""
    pairs = ([i, j] for i in range(30) for j in range(30))
    requests = (Request(prompt=pair, max_new_tokens=limit) for pair in pairs)
    return list(islice((each for each in requests if expected(each)[1] == "length"), count))


def test_figures_of_right_drafts() -> None:
    served = engine(1.0)
    serve(served)
    metrics = served.metrics
    assert metrics.proposed[0] == metrics.accepted[0] > 0
    assert metrics.accepted == metrics.proposed
    assert metrics.acceptance == (1.0, 1.0, 1.0)
    assert 3.0 < metrics.tokens_per_step <= 4.0
    acceptances = [each.acceptance for each in served.poll() if each.acceptance]
    assert sum(each.steps for each in acceptances) == metrics.request_steps
    prefilled = sum(each.tokens > 0 for each in acceptances)
    assert sum(each.tokens for each in acceptances) == metrics.tokens + prefilled


def test_figures_of_wrong_drafts() -> None:
    served = engine(0.0, drafts=2)
    serve(served)
    metrics = served.metrics
    assert metrics.acceptance == (0.0, 0.0)
    assert metrics.proposed[0] == metrics.proposed[1]
    for each in served.poll():
        assert each.acceptance is not None
        assert each.acceptance.accepted == 0


def test_figures_by_position_and_of_requests_agree() -> None:
    served = engine(0.6)
    served.start([Request(prompt=[i], max_new_tokens=40) for i in range(4)])
    served.step(5)
    metrics = served.metrics
    running = list(metrics.requests.values())
    ended = [each.acceptance for each in served.poll() if each.acceptance]
    assert metrics.request_steps == sum(each.steps for each in (*running, *ended))
    if not ended:
        assert sum(metrics.proposed) == sum(each.proposed for each in running)
        assert sum(metrics.accepted) == sum(each.accepted for each in running)


def test_a_request_has_the_drafts_that_it_asks_for() -> None:
    served = engine(1.0)
    serve(served, drafts=1)
    assert served.metrics.proposed[0] > 0
    assert served.metrics.proposed[1:] == (0, 0)
    assert np.isnan(served.metrics.acceptance[1])


def test_one_warning_when_acceptance_collapses_and_tokens_stay_right() -> None:
    served = engine(0.0, drafts=1)
    with pytest.warns(AcceptanceWarning, match="0 of the last 5") as caught:
        serve(served, count=80)
    assert len(caught) == 1
    assert served.metrics.warnings == (str(caught[0].message),)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(("rate", "warns"), [(0.19, True), (0.21, False)])
def test_the_threshold(rate: float, *, warns: bool) -> None:
    sums = no_sums(1)
    tally = Tally(sums)
    right = int(WINDOW * rate)
    counts = np.array([2] * right + [1] * (WINDOW - right))[None]
    ones = np.ones(WINDOW, np.int32)

    def judge(counts: NDArray[np.intp]) -> str:
        add_group(sums, counts, ones, np.zeros(WINDOW, np.bool_), ones, ones)
        return tally.judge()

    assert bool(judge(counts)) == warns
    if warns:  # once, until a window is better
        assert not judge(counts)
        assert not judge(counts * 0 + 2)
        assert judge(counts)


COUNTS = st.integers(0, 400)


@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=6), st.integers(0, 4))
def test_the_policy_chooses_the_best_quotient(pairs: list[tuple[int, int]], most: int) -> None:
    policy = ExpectedGain(cost=0.1)
    proposed = np.array([max(pair) for pair in pairs], np.int32)
    accepted = np.array([min(pair) for pair in pairs], np.int32)
    chosen = policy(proposed, accepted, most)
    for got, p, a in zip(chosen.tolist(), proposed.tolist(), accepted.tolist(), strict=True):
        rate = (a + 0.7 * 16) / (p + 16)
        gains = [sum(rate**i for i in range(d + 1)) / (1 + 0.1 * d) for d in range(most + 1)]
        assert gains[got] >= max(gains) * (1 - 1e-12)


def test_a_policy_turns_useless_drafts_off_and_keeps_good_ones() -> None:
    for right, wanted in ((0.0, 0), (1.0, 3)):
        served = engine(right)
        served.draft_policy = ExpectedGain(cost=0.3, weight=2.0)
        served.start(unbroken(4))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AcceptanceWarning)
            served.step(8)
        places = served._scheduler.places
        # What a group tells decides about the next.
        seen = places.live & (places.state[:, State.STEPS] > 4)
        assert seen.any()
        assert set(places.state[seen, State.DRAFTS].tolist()) == {wanted}


@pytest.mark.parametrize(
    "arguments",
    [{"cost": 0}, {"cost": float("nan")}, {"prior": 2}, {"weight": 0}, {"cost": float("inf")}],
)
def test_a_policy_is_checked(arguments: dict[str, float]) -> None:
    with pytest.raises(GraphError, match=r"error\[bad-policy\]"):
        ExpectedGain(**arguments)


def test_a_policy_is_a_function() -> None:
    with pytest.raises(GraphError, match=r"error\[bad-argument\]: draft_policy must be a function"):
        engine(1.0).draft_policy = 3  # type: ignore[assignment]


@pytest.mark.parametrize(
    "policy",
    [
        ExpectedGain,
        lambda proposed, accepted, most: None,
        lambda proposed, accepted, most: [1] * (len(proposed) + 1),
        lambda proposed, accepted, most: 1,
        lambda proposed, accepted, most: np.full(len(proposed), most + 1),
        lambda proposed, accepted, most: np.full(len(proposed), -1),
        lambda proposed, accepted, most: np.full(len(proposed), 0.5),
    ],
)
def test_what_a_policy_gives_is_checked(policy: DraftPolicy) -> None:
    served = engine(1.0)
    served.draft_policy = policy
    with pytest.raises(GraphError, match=r"error\[bad-policy\]: draft_policy (failed|gave)"):
        serve(served)
    served.draft_policy = None
    while served.busy:
        served.step(8)
