"""Figures of drafts, and the warning when they are useless."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.runtime.engine.metrics import WINDOW, AcceptanceWarning, Tally, add_group, no_sums
from ascendfx.runtime.engine.request import Request
from tests.engine.drafting import engine, serve


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


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("steps", [1, 5, 40])
def test_figures_by_position_and_of_requests_agree(share: float, steps: int) -> None:
    """Also when requests have ended, by limits and by stop tokens inside of accepted drafts."""
    served = engine(share)
    served.start(
        [Request(prompt=[i], max_new_tokens=11 * i + 7, stop_ids=range(i)) for i in range(4)]
    )
    served.step(steps)
    metrics = served.metrics
    each = [*metrics.requests.values(), *metrics.ended.values()]
    assert metrics.request_steps == sum(one.steps for one in each)
    assert sum(metrics.proposed) == sum(one.proposed for one in each)
    assert sum(metrics.accepted) == sum(one.accepted for one in each)


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
        add_group(sums, counts, counts * 0 + 1, ones, np.zeros(WINDOW, np.bool_))
        return tally.judge()

    assert bool(judge(counts)) == warns
    if warns:  # once, until a window is better
        assert not judge(counts)
        assert not judge(counts * 0 + 2)
        assert judge(counts)
