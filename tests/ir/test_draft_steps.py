"""Steps with the same seeds leave the main model's text: no random number decides twice."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.ir.ops import SampleDrafts, sample_drafts, sample_tokens
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    Verification,
)
from ascendfx.ir.uniform import uniform
from tests.chi_square import chi_square_p
from tests.ir.draft_steps import Chain, texts_of

CHAIN = Chain.of(3)


def _p(texts: Sequence[Sequence[int]], length: int) -> float:
    """Return how likely the first tokens of texts are, all of them together."""
    shape = (3,) * length
    all_texts = itertools.product(range(3), repeat=length)
    shares = [CHAIN.p(0, text) for text in all_texts]
    places = np.ravel_multi_index(np.array([each[:length] for each in texts]).T, shape)
    return chi_square_p(np.bincount(places, minlength=3**length), shares)


@pytest.mark.parametrize("requests", [1_000, pytest.param(40_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("drafts", [1, 2])
@pytest.mark.parametrize("kind", [Verification.EXACT, Verification.REJECTION, Verification.BLOCK])
def test_three_tokens_of_several_steps_are_those_of_the_main_model(
    kind: Verification, drafts: int, requests: int
) -> None:
    texts = texts_of(CHAIN, requests, drafts, 3, temperature=1.0, verification=kind)
    assert len({len(each) for each in texts}) > 1
    for length in (1, 2, 3):
        assert _p(texts, length) > 1e-3


def test_a_block_whose_numbers_come_again_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at numbers of rows that it drops: so the step is in the counter."""

    def of_position(
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        index: NDArray[np.int64],
        stream: int,
        _step: NDArray[np.int64] | int = 0,
    ) -> NDArray[np.float64]:
        return uniform(low, high, index, stream)

    for module in (sample_drafts, sample_tokens):
        monkeypatch.setattr(module, "uniform", of_position)
    texts = texts_of(CHAIN, 1_500, 2, 3, temperature=1.0, verification=Verification.BLOCK)
    assert _p(texts, 1) > 1e-3
    assert _p(texts, 2) < 1e-9
    assert _p(texts, 3) < 1e-12


@pytest.mark.parametrize("drafts", [1, 2])
def test_verified_by_equality_drafts_change_nothing(drafts: int) -> None:
    """With the same seeds: the numbers are those of positions."""
    alone = texts_of(CHAIN, 200, 0, 6, temperature=1.0)
    for text, short in zip(texts_of(CHAIN, 200, drafts, 3, temperature=1.0), alone, strict=True):
        assert text[:6] == short[: len(text)]


@pytest.mark.parametrize("kind", list(Verification))
def test_without_temperature_every_lossless_text_is_the_most_likely(kind: Verification) -> None:
    options = {"verification": float(kind), "threshold": 1.0, "scale": 1.0, "ranks": 0.0}
    (alone,) = texts_of(CHAIN, 1, 0, 6)
    for text in texts_of(CHAIN, 3, 2, 3, **options):
        assert text[:6] == alone[: len(text)]


def _drafted(
    logits: list[float], options: dict[str, float], depth: int = 0, minimum: int = 7
) -> tuple[list[float], ...]:
    """Return what is kept of the draft of a place with 5 new tokens before its first draft."""
    chosen = np.zeros((1, OPTION_COLUMNS))
    for name, value in options.items():
        chosen[0, Option[name.upper()]] = value
    state = np.zeros((1, STATE_COLUMNS), np.int64)
    state[0, [State.LENGTH, State.GENERATED, State.MINIMUM]] = 9, 4, minimum
    stops = np.full((1, STOP_COLUMNS), -1)
    stops[0, 3] = 1
    kept = np.full((1, 2, 3), 5), np.full((1, 2, 3), 5.0)
    operands = (np.array([logits]), chosen, state, stops, np.array([0]), *kept)
    drafts, ids, shares = SampleDrafts(depth).reference(*operands)
    assert (ids[0, 1 - depth] == 5).all()
    assert (shares[0, 1 - depth] == 5).all()
    return ids[0, depth].tolist(), shares[0, depth].tolist(), drafts.tolist()


_SHARES = [4.0, 8.0, 3.0, 2.0]


@pytest.mark.parametrize(
    ("options", "depth", "ids", "shares"),
    [
        ({}, 0, [0, -1, -1], [1, 0, 0]),
        ({}, 1, [0, -1, -1], [1, 0, 0]),
        ({"temperature": 1}, 0, [0, -1, -1], [1, 0, 0]),
        ({"temperature": 1, "verification": 3}, 0, [0, -1, -1], [1, 0, 0]),
        ({"temperature": 0, "verification": 1}, 0, [0, -1, -1], [1, 0, 0]),
        ({"temperature": 1, "verification": 1}, 0, [0, 2, 3], [4 / 9, 3 / 9, 2 / 9]),
        ({"temperature": 1, "verification": 2, "top_k": 2}, 0, [0, 2, -1], [4 / 7, 3 / 7, 0]),
        ({"temperature": 1, "verification": 2, "top_p": 0.4}, 0, [0, -1, -1], [1, 0, 0]),
    ],
)
def test_what_a_draft_is_drawn_from_is_kept(
    options: dict[str, float], depth: int, ids: list[int], shares: list[float]
) -> None:
    """Token 1, the most likely one, stops, which the request may not do yet."""
    logits = np.log(_SHARES).tolist()
    found_ids, found_shares, (draft,) = _drafted(logits, options, depth)
    assert found_ids == ids
    np.testing.assert_allclose(found_shares, shares)
    assert draft in ids


@pytest.mark.parametrize(
    ("minimum", "depth", "draft"), [(5, 0, 1), (6, 0, 0), (6, 1, 1), (7, 1, 0)]
)
def test_a_stop_token_is_drafted_where_it_can_come(minimum: int, depth: int, draft: int) -> None:
    assert _drafted(np.log(_SHARES).tolist(), {}, depth, minimum)[2] == [draft]


def test_nothing_is_kept_where_no_token_can_be_chosen() -> None:
    for logits in ([0.0, 0.0, 0.0, 0.0], [np.nan, 1.0, 0.0, 0.0], [-np.inf] * 4):
        for verification in (0, 1):
            found = _drafted(logits, {"temperature": 1, "verification": verification})
            assert found == ([-1, -1, -1], [0, 0, 0], [0])
