"""How many drafts a request has: what pays, chosen in every step on the device, or by the host."""

import warnings
from bisect import bisect_left
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.ops.advance_requests import moved_rate
from ascendfx.ir.step_state import NO_DRAFT, RATE_ONE, State
from ascendfx.runtime.engine.draft_policy import (
    DraftPolicy,
    ExpectedGain,
    first_rate,
    step_row,
)
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.metrics import AcceptanceWarning
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.transfer_record import TransferRecord
from tests.engine.drafting import engine, serve, unbroken
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import served_by
from tests.engine.toy_model import expected
from tests.engine.tree_executor import TreeExecutor

pytestmark = pytest.mark.filterwarnings("ignore::ascendfx.AcceptanceWarning")

STEPS = 64
COSTS = st.floats(1e-4, 3.0)


def under(device: FakeExecutor, policy: DraftPolicy | ExpectedGain | None) -> Engine:
    served = served_by(device)
    served.draft_policy = policy
    return served


def device(kind: type[FakeExecutor] = FakeExecutor, **more: Any) -> FakeExecutor:
    """Return a device that runs all steps of a test in one group."""
    sizes: dict[str, Any] = {"places": 2, "blocks": 400, "table_blocks": 200, "chunk": 16}
    return kind(**{**sizes, "steps": STEPS, "drafts": 3, **more})


def asked(device: FakeExecutor, place: int, steps: int) -> list[int]:
    """Return how many drafts each step of the last group had."""
    rows = device.controls["emitted"][:steps, place, 1:]
    return (device.drafts - (rows == NO_DRAFT).sum(axis=1)).tolist()


# -- which rates pay


@given(COSTS, st.integers(1, 8), st.integers(0, RATE_ONE))
def test_thresholds_are_where_the_best_number_changes(cost: float, most: int, rate: int) -> None:
    policy = ExpectedGain(cost=cost)
    found = policy.thresholds(most)
    assert found == sorted(found)
    best = policy.best(rate, most)
    assert sum(each <= rate for each in found) == best
    a = rate / RATE_ONE
    gains = [sum(a**i for i in range(d + 1)) / (1 + cost * d) for d in range(most + 1)]
    assert gains[best] >= max(gains) * (1 - 1e-12)


@given(COSTS, st.integers(1, 8), st.lists(st.integers(0, RATE_ONE), min_size=2, max_size=20))
def test_the_best_number_grows_with_the_rate(cost: float, most: int, rates: list[int]) -> None:
    policy = ExpectedGain(cost=cost)
    best = [policy.best(rate, most) for rate in sorted(rates)]
    assert best == sorted(best)


def test_thresholds_of_one_policy_agree_with_every_rate() -> None:
    policy = ExpectedGain(cost=0.15)
    best = [policy.best(rate, 3) for rate in range(0, RATE_ONE + 1, 16)]
    for d, each in enumerate(policy.thresholds(3), 1):
        assert bisect_left(best, d) == -(-each // 16)


def test_one_draft_pays_where_it_is_right_more_often_than_it_costs() -> None:
    assert ExpectedGain(cost=0.25).thresholds(1) == [RATE_ONE // 4 + 1]  # fewer among equals
    assert ExpectedGain(cost=1.0).thresholds(2) == [RATE_ONE + 1] * 2


def test_what_a_step_is_told_of_a_policy() -> None:
    gain = ExpectedGain(cost=0.3)
    assert step_row(gain, 3).tolist() == [0, *gain.thresholds(3), *[0] * 12]
    assert not step_row(None, 3).any()
    assert step_row(lambda proposed, accepted, most: proposed, 3)[1] == -1
    assert (first_rate(ExpectedGain(prior=0.5)), first_rate(None)) == (32_768, 45_875)


# -- what the rate estimates


@pytest.mark.parametrize("drafts", [1, 2, 4])
@pytest.mark.parametrize("right", [0.2, 0.7, 0.9])
def test_the_rate_is_that_of_drafts_behind_right_ones(right: float, drafts: int) -> None:
    """However many drafts there are; accepted of proposed would be 0.44 for 0.7 of 4.

    A step moves the rate to r (1 - t / 16) + s / 16 for s of t. With m the mean of t, the variance
    v of r obeys v = v E(1 - t / 16)^2 + E(s - a t)^2 / 256, where E(s - a t)^2 = m a (1 - a). As t
    is at most 4, E(1 - t / 16)^2 <= 1 - m (2 / 16 - 4 / 256), so v <= a (1 - a) / 28. 5 standard
    errors of the mean of 4,000; rounding takes less than 1 / 65,536 of a step, and a step takes
    1 / 16 of what is too much.
    """
    random, places = np.random.default_rng(drafts), 4_000
    rate = np.full(places, first_rate(None))
    for _ in range(200):
        hits = random.random((places, drafts)) < right
        accepted = np.logical_and.accumulate(hits, axis=1).sum(axis=1)
        rate = moved_rate(rate, accepted, np.full(places, drafts))
    error = (right * (1 - right) / 28 / places) ** 0.5
    assert abs(rate.mean() / RATE_ONE - right) <= 5 * error + 16 / RATE_ONE


@given(st.integers(0, RATE_ONE), st.integers(0, 8), st.integers(0, 8))
def test_a_rate_stays_a_probability(rate: int, accepted: int, more: int) -> None:
    (found,) = moved_rate(np.array([rate]), np.array([accepted]), np.array([accepted + more]))
    assert 0 <= found <= RATE_ONE
    if not accepted:
        assert found <= rate
    if not more:
        assert found >= rate


# -- the switch, inside one group of steps


def test_wrong_drafts_are_given_up_inside_one_group() -> None:
    """0.7 (15/16)^n is below 0.3 from n = 14 on: log(0.7 / 0.3) / log(16 / 15) = 13.1.

    Rounding down only makes it smaller.
    """
    own = device(right=0.0)
    served = under(own, ExpectedGain(cost=0.3))
    request = unbroken(1, STEPS)[0]
    (name,) = served.start([request])
    assert served.step(STEPS - 1) == STEPS - 1
    numbers = asked(own, 0, STEPS - 1)
    assert numbers[0] == 3
    assert all(numbers[:14])
    tried = [step + 1 for step, drafts in enumerate(numbers) if drafts]
    # The step behind every 16th one tries one again.
    assert tried == [*range(1, 15), *range(17, STEPS, 16)]
    assert {numbers[step - 1] for step in tried[14:]} == {1}
    (update,) = served.poll()
    assert update.token_ids == expected(request)[0]
    assert update.acceptance is not None
    assert update.acceptance.drafts == numbers[-1]
    assert update.request == name
    # One draft counts as one, three as three.
    seen = [sum(drafts > i for drafts in numbers[:-1]) for i in range(3)]
    assert list(served.metrics.proposed) == seen


class Fickle(FakeExecutor):
    """Drafts are wrong, and right from a step on."""

    turns_at = 20

    def _begin(self) -> None:
        super()._begin()
        self.right = float(self.calls > self.turns_at)


def test_drafts_that_get_right_again_come_back_inside_one_group() -> None:
    """The first 5 wrong ones bring 0.4 to 0.290, step 17 to 0.272; step 33 is right: 0.317 > 0.3.

    Then all are: 1 - 0.683 (15/16)^n is above 0.609, where two pay, from n = 9 on.
    """
    own = device(Fickle, drafts=3, table_blocks=60)
    served = under(own, ExpectedGain(cost=0.3, prior=0.4))
    served.start(unbroken(1, 140))
    served.step(60)
    numbers = asked(own, 0, 60)
    assert numbers[:33] == [3, *[1] * 4, *[0] * 11, 1, *[0] * 15, 1]
    assert numbers[33:43] == [*[1] * 9, 2]
    assert numbers[43:] == sorted(numbers[43:])
    assert numbers[-1] == 3


class ByText(FakeExecutor):
    """Drafts are right for texts that begin with an even token, wrong for others."""

    def _draft_logits(self, text: list[int]) -> NDArray[Any]:
        self.right = float(text[0] % 2 == 0)
        return super()._draft_logits(text)


def test_requests_of_one_batch_have_drafts_of_their_own() -> None:
    own = device(ByText)
    served = under(own, ExpectedGain(cost=0.3))
    pairs = [Request(prompt=(i, j), max_new_tokens=100) for i in range(2) for j in range(30)]
    even, odd = (
        next(each for each in pairs if each.prompt[0] == first and expected(each)[1] == "length")
        for first in (0, 1)
    )
    served.start([even, odd])
    served.step(20)
    assert asked(own, 0, 20)[10:] == [3] * 10
    assert asked(own, 1, 20)[14:16] == [0, 0]
    running = served.metrics.requests
    assert (running[0].drafts, running[1].drafts) == (3, 0)
    while served.busy:
        served.step(STEPS)
    found = {each.request: each.token_ids for each in served.poll()}
    assert [found[0], found[1]] == [expected(even)[0], expected(odd)[0]]


def test_a_request_that_names_a_number_keeps_it() -> None:
    own = device(right=0.0)
    served = under(own, ExpectedGain(cost=0.3))
    named, free = unbroken(2, 40)
    served.start([Request(prompt=named.prompt, max_new_tokens=40, draft_tokens=2), free])
    served.step(30)
    assert set(asked(own, 0, 30)) == {2}
    assert asked(own, 1, 30)[29] == 0


def test_a_policy_counts_depths_of_a_tree() -> None:
    """A tree of depth 3 is cut to one of depth 1, with all candidates there, and to none."""
    tree = DraftTree((3, 2, 1))
    own = TreeExecutor(
        tree.branches, places=1, blocks=200, table_blocks=100, steps=STEPS, right=0.0, chunk=16
    )
    served = under(own, ExpectedGain(cost=0.6, prior=0.95))
    served.start(unbroken(1, 120))
    served.step(60)
    numbers = asked(own, 0, 60)
    assert set(numbers) <= set(tree.ends)
    assert numbers[0] == 6
    assert numbers[-2:] == [0, 0]
    assert tree.ends[1] in numbers


def test_the_history_outlives_a_pause() -> None:
    own = device(right=0.0, places=2, blocks=28, block_tokens=2, table_blocks=27)
    served = under(own, ExpectedGain(cost=0.3))
    served.start(unbroken(2, 24))
    paused = False
    before: dict[int, int] = {}
    while served.busy:
        served.step(4)
        for entry in served._entries.values():
            if entry.place >= 0:
                rate = int(served._scheduler.places.state[entry.place, State.RATE])
                assert rate <= before.get(entry.id, RATE_ONE)
                before[entry.id] = rate
            else:
                paused |= entry.id in before
    assert paused


def test_a_record_begins_with_the_policy_of_the_engine_that_decodes() -> None:
    given = device(plans=("prefill",), right=0.0)
    taker = device(plans=("decode",), right=0.0)
    record: TransferRecord = under(given, None).prefill(unbroken(1)[0])
    kept = record.state.copy()
    served = under(taker, ExpectedGain(cost=0.3, prior=0.31))
    served.start_from(record)
    served.step(3)
    assert asked(taker, 0, 3)[1:] == [0, 0]
    assert (record.state == kept).all()


@pytest.mark.parametrize("policy", [None, ExpectedGain(cost=0.3)])
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_texts_do_not_depend_on_a_policy(policy: ExpectedGain | None, temperature: float) -> None:
    own = device(right=0.6, places=4)
    served = under(own, policy)
    requests = [
        Request(
            prompt=each.prompt,
            max_new_tokens=50,
            sampling=Sampling(temperature=temperature, seed=seed),
        )
        for seed, each in enumerate(unbroken(6))
    ]
    ids = served.start(requests)
    tokens: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    while served.busy:
        served.step(7, wait=False)
        for update in served.poll():
            tokens[update.request] += update.token_ids
    assert list(tokens.values()) == [expected(each)[0] for each in requests]


# -- policies that come and go


def test_a_policy_can_be_taken_away_while_requests_run() -> None:
    own = device(right=0.0, steps=40)
    served = under(own, ExpectedGain(cost=0.3))
    served.start(unbroken(1, 150))
    served.step(40)
    assert asked(own, 0, 40)[-2:] == [0, 0]
    served.draft_policy = None
    served.step(40)
    assert asked(own, 0, 40)[1:] == [3] * 39
    served.draft_policy = ones
    served.step(40)
    assert asked(own, 0, 40)[1:] == [1] * 39


def ones(proposed: NDArray[np.int32], accepted: NDArray[np.int32], most: int) -> Any:
    assert accepted.shape == proposed.shape
    return np.full(len(proposed), min(most, 1))


@pytest.mark.parametrize(
    "arguments", [{"cost": 0}, {"cost": float("nan")}, {"prior": 2}, {"cost": float("inf")}]
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
    with warnings.catch_warnings():
        warnings.simplefilter("error", AcceptanceWarning)
        while served.busy:
            served.step(8)
