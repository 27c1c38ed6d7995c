"""Trees of drafts change how many steps a text takes, and no token of it: emulated in float32."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import ascendfx
from ascendfx import Engine, Request, Sampling
from ascendfx.ir.step_state import State
from tests.models.bundled import Golden, heldout_tokens
from tests.models.draft_engines import (
    KNOWN,
    answers,
    engine,
    known_drafts,
    plain_answers,
    random_checkpoint,
)

pytestmark = pytest.mark.filterwarnings("ignore::ascendfx.AcceptanceWarning")

KINDS = ("trained", "random", "right", "wrong", "stop")
TREES = ((2,), (3, 2, 1))
LENGTHS = (1, 2, 126, 127, 128, 129, 300)


@cache
def tree_engine(kind: str, branches: tuple[int, ...], **options: Any) -> Engine:
    model = random_checkpoint() if kind == "random" else ascendfx.bundled_model()
    draft = None if kind in {"trained", "random"} else known_drafts()[kind]
    return ascendfx.compile(model, dtype="float32", draft_tree=branches, draft=draft, **options)


@pytest.mark.parametrize(
    ("kind", "branches"),
    [
        pytest.param(
            kind,
            branches,
            # The rest is with each tree only what it is with the other one.
            marks=() if kind == "trained" or branches == TREES[1] else pytest.mark.nightly,
        )
        for branches in TREES
        for kind in KINDS
    ],
)
def test_five_texts_are_the_golden_ones(
    kind: str, branches: tuple[int, ...], golden: tuple[Golden, ...]
) -> None:
    results = tree_engine(kind, branches).generate(
        [each.prompt_ids for each in golden], max_new_tokens=64, min_new_tokens=64
    )
    assert [each.token_ids for each in results] == [each.output_ids for each in golden]


@pytest.mark.parametrize(
    ("kind", "branches"),
    [
        ("trained", TREES[0]),
        ("stop", TREES[1]),
        pytest.param("trained", TREES[1], marks=pytest.mark.nightly),
        pytest.param("stop", TREES[0], marks=pytest.mark.nightly),
    ],
)
def test_end_tokens_end_a_text_where_they_would_without_drafts(
    kind: str, branches: tuple[int, ...], golden: tuple[Golden, ...]
) -> None:
    requests = tuple(Request(prompt=each.prompt_ids) for each in golden)
    assert answers(tree_engine(kind, branches), requests) == plain_answers(requests)


@pytest.mark.parametrize("kind", ["right", "stop"])
@pytest.mark.parametrize("branches", TREES[1:])
def test_limits_and_stop_tokens_at_every_depth(
    kind: str, branches: tuple[int, ...], golden: tuple[Golden, ...]
) -> None:
    prompt, new = golden[0].prompt_ids, golden[0].output_ids
    places = range(2 * (len(branches) + 1) + 1)
    limits = [Request(prompt=prompt, max_new_tokens=n + 1, min_new_tokens=n + 1) for n in places]
    common: dict[str, Any] = {"prompt": prompt, "max_new_tokens": KNOWN, "stop_at_eos": False}
    stops = [Request(**common, stop_ids=(new[n],)) for n in places]
    later = [Request(**common, stop_ids=(new[n],), min_new_tokens=n + 1) for n in places]
    requests = (*limits, *stops, *later)
    assert answers(tree_engine(kind, branches), requests) == plain_answers(requests)


@pytest.mark.parametrize("chunk", [128, 48])
def test_prompts_of_any_length_at_borders_of_chunks_and_blocks(chunk: int) -> None:
    (long, *_) = heldout_tokens(1, max(LENGTHS))["en"]
    requests = tuple(
        Request(prompt=long[-length:], max_new_tokens=12, min_new_tokens=12) for length in LENGTHS
    )
    each = tree_engine("trained", (3, 2, 1), prefill_chunk=chunk)
    assert answers(each, requests) == plain_answers(requests)


def test_the_context_is_used_to_its_end() -> None:
    """Behind the last tokens there are nodes without a place in the text."""
    (long, *_) = heldout_tokens(1, 250)["en"]
    requests = (
        Request(prompt=long[:226], max_new_tokens=30, min_new_tokens=30),
        Request(prompt=long[:120], max_new_tokens=30, min_new_tokens=30),
    )
    each = tree_engine("trained", (3, 2, 1), max_context=256, max_batch=2, cache_blocks=4)
    assert answers(each, requests) == plain_answers(requests)


def test_fewer_drafts_than_the_tree_has(golden: tuple[Golden, ...]) -> None:
    """Requests of one batch want each depth, one leaves it to a policy; figures count depths."""
    each = tree_engine("trained", (3, 2, 1))
    drafts = (0, 1, 2, 3, None)
    requests = [
        Request(prompt=g.prompt_ids, max_new_tokens=40, min_new_tokens=40, draft_tokens=count)
        for g, count in zip(golden, drafts, strict=True)
    ]
    each.draft_policy = lambda proposed, accepted, most: np.full_like(proposed, most - 1)
    ids = each.start(requests)
    found: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    rates: dict[int, Any] = {}
    while each.busy:
        each.step(4)
        for update in each.poll():
            found[update.request] += update.token_ids
            rates[update.request] = update.acceptance
    each.draft_policy = None
    assert list(found.values()) == [g.output_ids[:40] for g in golden]
    # The step that ends a request is not counted; the first ones ask no policy.
    counted = [divmod(rates[i].proposed, rates[i].steps - 1) for i in ids]
    assert counted[:-1] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert counted[-1][0] == 2
    for request, count in zip(ids, drafts, strict=True):
        assert rates[request].accepted <= rates[request].proposed
        assert (rates[request].accepted > 0) == (count != 0)


@pytest.mark.parametrize("branches", [pytest.param(TREES[0], marks=pytest.mark.nightly), TREES[1]])
@pytest.mark.parametrize(("kind", "rate"), [("right", 1.0), ("wrong", 0.0), ("stop", 0.0)])
def test_drafts_are_accepted_as_often_as_they_are_right(
    kind: str, rate: float, branches: tuple[int, ...], golden: tuple[Golden, ...]
) -> None:
    each, drafts = tree_engine(kind, branches), len(branches)
    before = each.metrics
    each.generate([g.prompt_ids for g in golden], max_new_tokens=KNOWN, min_new_tokens=KNOWN)
    after = each.metrics
    assert len(after.proposed) == drafts
    for i in range(drafts):
        proposed = after.proposed[i] - before.proposed[i]
        assert proposed > 0
        if kind != "wrong":  # the second best of a wrong draft may be right
            assert after.accepted[i] - before.accepted[i] == rate * proposed
    if rate:
        steps = after.request_steps - before.request_steps
        assert steps == len(golden) * -(-(KNOWN - 1) // (drafts + 1))


@pytest.mark.parametrize("branches", TREES)
def test_a_tree_gives_more_tokens_per_step_than_its_spine(
    branches: tuple[int, ...], golden: tuple[Golden, ...]
) -> None:
    found: list[float] = []
    for each in (engine("trained", len(branches)), tree_engine("trained", branches)):
        before = each.metrics
        each.generate([g.prompt_ids for g in golden], max_new_tokens=64, min_new_tokens=64)
        after = each.metrics
        steps = after.request_steps - before.request_steps
        found.append((after.tokens - before.tokens) / steps)
    assert found[1] > found[0]


def test_sampled_texts_are_those_without_drafts(golden: tuple[Golden, ...]) -> None:
    requests = tuple(
        Request(
            prompt=g.prompt_ids,
            max_new_tokens=40,
            min_new_tokens=5,
            sampling=Sampling(temperature=0.8, top_p=0.95, top_k=40, seed=seed),
        )
        for seed, g in enumerate(golden)
    )
    assert answers(tree_engine("trained", (3, 2, 1)), requests) == plain_answers(requests)


def test_the_reference_executor_writes_the_same(golden: tuple[Golden, ...]) -> None:
    reference = ascendfx.compile(
        ascendfx.bundled_model(), dtype="float32", draft_tree=[2, 2], executor="reference"
    )
    (result,) = reference.generate([golden[0].prompt_ids], max_new_tokens=8, min_new_tokens=8)
    assert result.token_ids == golden[0].output_ids[:8]
    assert reference.metrics.request_steps < 7


def test_a_request_goes_on_elsewhere(golden: tuple[Golden, ...]) -> None:
    each = tree_engine("trained", (3, 2, 1))
    record = each.prefill(
        Request(prompt=golden[1].prompt_ids, max_new_tokens=20, min_new_tokens=20)
    )
    assert len(record.drafts) == 3
    assert record.state[State.DRAFTS] == 6
    request = each.start_from(record)
    tokens: tuple[int, ...] = ()
    while each.busy:
        each.step(4)
        for update in each.poll():
            assert update.request == request
            tokens += update.token_ids
    assert tokens == golden[1].output_ids[:20]
