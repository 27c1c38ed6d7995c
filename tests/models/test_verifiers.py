"""Ways to verify drafts on the bundled model: what each promises of the text, emulated."""

from dataclasses import replace
from typing import Any

import pytest

import ascendfx
from ascendfx import Relaxed, Request, Sampling, Typical
from tests.models.bundled import Golden
from tests.models.draft_engines import KNOWN, answers, engine, pairs, plain, plain_answers

pytestmark = pytest.mark.filterwarnings("ignore::ascendfx.AcceptanceWarning")

PENALTIES = {"repetition_penalty": 1.3, "presence_penalty": 0.2, "frequency_penalty": 0.4}


def asked(golden: tuple[Golden, ...], new: int, **sampling: Any) -> tuple[Request, ...]:
    """Return a request for each text, with seeds of their own."""
    return tuple(
        Request(
            prompt=each.prompt_ids,
            max_new_tokens=new,
            min_new_tokens=new,
            sampling=Sampling(seed=seed, **sampling),
        )
        for seed, each in enumerate(golden)
    )


@pytest.mark.parametrize(("kind", "drafts"), pairs())
def test_greedy_texts_are_the_golden_ones_with_every_lossless_verification(
    kind: str, drafts: int, golden: tuple[Golden, ...]
) -> None:
    for verification in ("exact", "rejection", "block"):
        found = answers(engine(kind, drafts), asked(golden, KNOWN, verification=verification))
        assert [tokens for tokens, _ in found] == [each.output_ids[:KNOWN] for each in golden]


@pytest.mark.parametrize(("kind", "drafts"), pairs("trained", "wrong"))
@pytest.mark.parametrize("penalties", [{}, PENALTIES], ids=["plain", "penalties"])
def test_a_seed_gives_one_text_for_any_drafts_and_batch(
    kind: str, drafts: int, penalties: dict[str, float], golden: tuple[Golden, ...]
) -> None:
    for temperature in (0.0, 0.8):
        requests = asked(golden, KNOWN, temperature=temperature, top_p=0.95, **penalties)
        expected = plain_answers(requests)
        assert answers(engine(kind, drafts), requests) == expected
        assert answers(engine(kind, drafts), requests[1:2]) == expected[1:2]


def mixture(golden: tuple[Golden, ...]) -> tuple[Request, ...]:
    """Return requests of which no two are verified alike."""
    ways = ("exact", "rejection", "block", Typical(), Relaxed(top_k=3, delta=0.2))
    found: list[Request] = []
    for number, way in enumerate(ways):
        more = PENALTIES if number % 2 else {}
        found += asked(golden[:2], KNOWN, temperature=0.7, verification=way, **more)
        found += asked(golden[2:3], KNOWN, verification=way, **more)
    return tuple(found)


@pytest.mark.parametrize("drafts", [1, 3])
def test_requests_of_one_batch_are_verified_as_each_wants(
    drafts: int, golden: tuple[Golden, ...]
) -> None:
    served, requests = engine("trained", drafts), mixture(golden)
    together = answers(served, requests)
    assert together == [answers(served, [each])[0] for each in requests]
    assert together == answers(served, requests[::-1])[::-1]


@pytest.mark.parametrize(
    ("drafts", "verification"),
    [
        *((3, "exact"), (1, "rejection"), (3, "block")),
        *(
            pytest.param(*each, marks=pytest.mark.nightly)
            for each in ((1, "exact"), (3, "rejection"), (1, "block"))
        ),
    ],
)
def test_requests_of_one_batch_draft_as_many_tokens_as_each_wants(
    drafts: int, verification: str, golden: tuple[Golden, ...]
) -> None:
    """Rows of a step stand where the drafts of others put them, and nothing depends on that."""
    served = engine("trained", drafts)
    greedy = asked(golden, KNOWN, verification=verification)
    drawn = asked(golden, KNOWN, temperature=0.8, top_p=0.95, verification=verification)
    for first in range(drafts + 1):
        wants = [(first + i) % (drafts + 1) for i in range(len(golden))]
        requests = [
            replace(each, draft_tokens=want)
            for texts in (greedy, drawn)
            for each, want in zip(texts, wants, strict=True)
        ]
        together = [tokens for tokens, _ in answers(served, requests)]
        assert together[: len(golden)] == [each.output_ids[:KNOWN] for each in golden]
        if verification == "exact":
            assert together[len(golden) :] == [tokens for tokens, _ in plain_answers(drawn)]
        elif not first:
            alone = [answers(served, [each])[0][0] for each in requests[len(golden) :]]
            assert together[len(golden) :] == alone


def test_drawn_drafts_of_a_lossless_verification_are_accepted_more_often(
    golden: tuple[Golden, ...],
) -> None:
    """Rejection sampling accepts sum min(p, q) where sample-and-compare accepts p(d)."""
    served = engine("trained", 1)
    rates: dict[str, float] = {}
    for verification in ("exact", "rejection"):
        before = served.metrics
        for first in range(0, 30, 5):
            requests = asked(golden, KNOWN, temperature=1.0, verification=verification)
            moved = [
                Request(
                    prompt=each.prompt,
                    max_new_tokens=KNOWN,
                    min_new_tokens=KNOWN,
                    sampling=Sampling(temperature=1.0, seed=first + i, verification=verification),
                )
                for i, each in enumerate(requests)
            ]
            answers(served, moved)
        after = served.metrics
        proposed = after.proposed[0] - before.proposed[0]
        rates[verification] = (after.accepted[0] - before.accepted[0]) / proposed
    assert rates["rejection"] > rates["exact"]


def test_a_request_that_was_put_out_and_one_that_went_elsewhere_keep_their_penalties(
    golden: tuple[Golden, ...],
) -> None:
    long = tuple((golden[i].prompt_ids * 128)[:100] for i in range(3))
    requests = tuple(
        Request(
            prompt=prompt,
            max_new_tokens=60,
            min_new_tokens=60,
            sampling=Sampling(seed=seed, temperature=0.5 * seed, **PENALTIES),
        )
        for seed, prompt in enumerate(long)
    )
    expected = plain_answers(requests)
    served = ascendfx.compile(
        ascendfx.bundled_model(),
        dtype="float32",
        draft_tokens=2,
        max_batch=3,
        cache_blocks=3,
        max_context=256,
    )
    left: list[int] = []
    pause = served._scheduler._pause
    served._scheduler._pause = lambda place: (left.append(place), pause(place))[1]  # type: ignore[method-assign]
    assert answers(served, requests) == expected
    assert left, "three blocks do not hold two requests of two"
    records = [served.prefill(each) for each in requests]
    assert all("cache.counts" not in each.caches for each in records)
    ids = [served.start_from(each) for each in records[::-1]]
    tokens: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    while served.busy:
        served.step(3)
        for update in served.poll():
            tokens[update.request] += update.token_ids
    assert list(tokens.values())[::-1] == [each for each, _ in expected]


def test_without_drafts_all_verifications_are_one(golden: tuple[Golden, ...]) -> None:
    def texts(way: Any) -> Any:
        return answers(plain(), asked(golden, 12, temperature=0.9, verification=way))

    assert all(texts(way) == texts("exact") for way in ("rejection", "block", Typical(), Relaxed()))
