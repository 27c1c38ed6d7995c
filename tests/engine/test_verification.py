"""What each way to verify drafts promises of whole texts, through the engine."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS, Verification
from ascendfx.ir.token_choice import choice_weights, penalised
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.verification import LOSSLESS, NAMES, Relaxed, Typical
from tests.chi_square import chi_square_p
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import run, served_by
from tests.engine.toy_model import VOCABULARY, counts_of, expected, logits_of

pytestmark = pytest.mark.filterwarnings("ignore::ascendfx.AcceptanceWarning")

PROMPT = (1, 16)
"""Behind it no text of the tests breaks."""
PENALTIES = {"repetition_penalty": 1.4, "presence_penalty": 0.3, "frequency_penalty": 0.2}


def engine(drafts: int = 2, right: float = 0.5, places: int = 8) -> Engine:
    device = FakeExecutor(
        places=places, drafts=drafts, blocks=200, table_blocks=12, right=right, chunk=8
    )
    return served_by(device)


def texts(served: Engine, samplings: list[Sampling], length: int) -> list[tuple[int, ...]]:
    ids = served.start(
        [Request(prompt=PROMPT, max_new_tokens=length, sampling=each) for each in samplings]
    )
    found = run(served)
    return [found[each][0] for each in ids]


def shares_of_texts(sampling: Sampling, length: int) -> dict[tuple[int, ...], float]:
    """Return how likely every text is without drafts."""
    shares: dict[tuple[int, ...], float] = {(): 1.0}
    options = sampling.options()
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for text, share in shares.items():
            logits = penalised(logits_of((*PROMPT, *text)), options, counts_of(PROMPT, text))
            weights = choice_weights(logits, options)
            for token in np.flatnonzero(weights).tolist():
                longer[*text, token] = share * float(weights[token] / weights.sum())
        shares = longer
    return shares


def fit(served: Engine, verification: str, penalties: dict[str, float]) -> float:
    """Return how likely the texts of many seeds are, if they are distributed as without drafts."""
    chosen = [
        Sampling(temperature=0.15, top_k=2, seed=seed, verification=verification, **penalties)
        for seed in range(1500)
    ]
    shares = shares_of_texts(chosen[0], 5)
    found = Counter(texts(served, chosen, 5))
    assert found.keys() <= shares.keys()
    rare = {text for text, share in shares.items() if share * len(chosen) < 5}
    often = [text for text in shares if text not in rare]
    counts = [found[text] for text in often] + [sum(found[text] for text in rare)]
    expected = [shares[text] for text in often] + [sum(shares[text] for text in rare)]
    return chi_square_p(np.array(counts), expected)


@pytest.mark.parametrize("penalties", [{}, PENALTIES], ids=["plain", "penalties"])
@pytest.mark.parametrize("verification", LOSSLESS)
def test_texts_are_distributed_as_without_drafts(
    verification: str, penalties: dict[str, float]
) -> None:
    assert fit(engine(), verification, penalties) > 1e-4


@pytest.mark.parametrize("verification", ["rejection", "block"])
def test_drafts_that_are_not_what_they_were_drawn_from_are_noticed(verification: str) -> None:
    """The test above has the power to see a wrong distribution of drafts."""
    served = engine()
    device = served.executor
    assert isinstance(device, FakeExecutor)
    step = device._step

    def exchanges() -> None:
        step()
        probabilities = device.controls["draft_probs"]
        probabilities[..., :2] = probabilities[..., 1::-1].copy()

    device._step = exchanges  # type: ignore[method-assign]
    assert fit(served, verification, {}) < 1e-6


@pytest.mark.parametrize("drafts", [1, 2, 3])
@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
def test_a_greedy_text_is_the_same_with_every_lossless_verification(
    drafts: int, right: float
) -> None:
    for penalties in ({}, PENALTIES):
        chosen = [Sampling(verification=name, **penalties) for name in LOSSLESS]
        request = Request(prompt=PROMPT, max_new_tokens=30, sampling=chosen[0])
        text, reason = expected(request)
        assert reason == "length"
        assert texts(engine(drafts, right), chosen, 30) == [text] * 3


def mixture() -> list[Sampling]:
    lossy = (Typical(threshold=0.3), Relaxed(top_k=3))
    ways = product((*LOSSLESS, *lossy), ({}, PENALTIES), (0.0, 0.9))
    return [
        Sampling(temperature=t, seed=seed, verification=way, **penalties)
        for seed, (way, penalties, t) in enumerate(ways)
    ]


def test_requests_of_one_batch_are_verified_as_each_wants() -> None:
    chosen = mixture()
    together = texts(engine(3, places=len(chosen)), chosen, 25)
    assert together == [texts(engine(3, places=1), [each], 25)[0] for each in chosen]
    assert together == texts(engine(3, places=3), chosen[::-1], 25)[::-1]
    assert len(set(together)) > len(chosen) / 2


def test_lossy_verification_accepts_what_the_model_would_not_say() -> None:
    plain, *lossy = texts(
        engine(right=0.0),
        [
            Sampling(),
            Sampling(verification=Typical(threshold=0.0)),
            Sampling(verification=Relaxed(top_k=VOCABULARY, delta=1.0)),
        ],
        20,
    )
    assert plain == expected(Request(prompt=PROMPT, max_new_tokens=20))[0]
    for text in lossy:
        assert text != plain
    strict = [Sampling(verification=Typical(threshold=1.0, alpha=1e6)), Sampling()]
    strict.append(Sampling(verification=Relaxed(top_k=1)))
    assert texts(engine(right=0.0), strict, 20) == [plain] * 3


def test_ways_to_verify_have_the_names_of_the_device() -> None:
    assert [name.upper() for name in NAMES] == [each.name for each in Verification]
    row = Sampling(verification="block").options()
    assert row.size == STATE_COLUMNS == 2 * STOP_COLUMNS


@pytest.mark.parametrize("name", ["temperature", "top_p", "repetition_penalty", "presence_penalty"])
@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_numbers_beyond_every_float_are_refused(name: str, value: int) -> None:
    with pytest.raises(GraphError, match=r"error\[bad-sampling\]"):
        Sampling(**{name: value})
