"""As many drafts as pay, chosen by the step itself: texts stay, useless drafts go; emulated."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

import ascendfx
from ascendfx import Engine, ExpectedGain, Request, Sampling
from tests.models.bundled import Golden
from tests.models.draft_engines import KNOWN, answers, engine, plain_answers

pytestmark = pytest.mark.filterwarnings("ignore::ascendfx.AcceptanceWarning")


@contextmanager
def adaptive(served: Engine, prior: float = 0.4) -> Generator[Engine]:
    """Let an engine that others use, too, choose the number of drafts."""
    served.draft_policy = ExpectedGain(cost=0.3, prior=prior)
    yield served
    served.draft_policy = None


@pytest.mark.parametrize(("kind", "drafts"), [("trained", 2), ("right", 3), ("wrong", 3)])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_texts_are_those_without_drafts(
    kind: str, drafts: int, temperature: float, golden: tuple[Golden, ...]
) -> None:
    requests = tuple(
        Request(
            prompt=each.prompt_ids,
            max_new_tokens=KNOWN,
            min_new_tokens=KNOWN,
            sampling=Sampling(temperature=temperature, seed=seed),
        )
        for seed, each in enumerate(golden)
    )
    with adaptive(engine(kind, drafts)) as served:
        assert answers(served, requests) == plain_answers(requests)


def test_wrong_drafts_end_inside_a_group_and_right_ones_become_more(
    golden: tuple[Golden, ...],
) -> None:
    """0.4 (15/16)^5 is 0.290 < 0.3; 0.7 becomes 0.756 and 0.787, above 0.76 where three pay."""
    for kind, prior, last in (("wrong", 0.4, 0), ("right", 0.7, 3)):
        with adaptive(engine(kind, 3), prior) as served:
            before = served.metrics
            (name,) = served.start(
                [Request(prompt=golden[0].prompt_ids, max_new_tokens=KNOWN, min_new_tokens=KNOWN)]
            )
            assert served.step(8) == 8  # one group
            after = served.metrics
            if kind == "wrong":
                assert after.requests[name].drafts == last
                # Three at first, as the prior has not been asked; then one while it pays.
                asked = [a - b for a, b in zip(after.proposed, before.proposed, strict=True)]
                assert asked == [5, 1, 1]
            while served.busy:
                served.step(8)
            (update,) = served.poll()
            assert update.token_ids == golden[0].output_ids[:KNOWN]
            assert update.acceptance is not None
            assert update.acceptance.drafts == last


@pytest.mark.parametrize("verification", ["rejection", "block"])
def test_the_reference_executor_chooses_the_same(
    verification: str, golden: tuple[Golden, ...]
) -> None:
    """Drafts that are drawn make the text depend on their number: it is the same number."""
    requests = tuple(
        Request(
            prompt=golden[0].prompt_ids,
            max_new_tokens=10,
            min_new_tokens=10,
            sampling=Sampling(temperature=0.9, seed=seed, verification=verification),
        )
        for seed in range(2)
    )
    reference = ascendfx.compile(
        ascendfx.bundled_model(), dtype="float32", draft_tokens=2, executor="reference"
    )
    with adaptive(reference), adaptive(engine("trained", 2)) as emulated:
        assert answers(reference, requests) == answers(emulated, requests)
        both = [list(each.metrics.ended.values())[-2:] for each in (reference, emulated)]
        assert both[0] == both[1]
