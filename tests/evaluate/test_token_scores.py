"""Scores of a text against the same formulas written out."""

import numpy as np

from ascendfx.runtime.evaluate.language_model import Prediction
from ascendfx.runtime.evaluate.token_scores import log_shares, token_scores
from tests.evaluate.models import Bigrams, card

IDS = (3, 1, 4, 1, 5)
SMALL = card(vocabulary=8)


def shares(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits)
    return weights / weights.sum()


def test_scores_are_those_of_the_definition() -> None:
    own, truth = Bigrams(1, 0.5, card=SMALL), Bigrams(1, card=SMALL)
    found = token_scores(IDS, own.predict(IDS), truth.predict(IDS))
    q, p = ([shares(model.row(token)) for token in IDS] for model in (own, truth))
    assert found.truth is not None
    assert found.divergence is not None
    told = [np.log(q[i][IDS[i + 1]]) for i in range(4)]
    np.testing.assert_allclose(found.own.told, told, rtol=1e-12)
    np.testing.assert_allclose(
        found.divergence,
        [np.sum(a * np.log(a / b)) for a, b in zip(p, q, strict=True)],
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        found.own.entropy, [-np.sum(each * np.log(each)) for each in q], rtol=1e-12
    )
    assert found.own.best.tolist() == [int(each.argmax()) for each in q]
    assert found.truth.best.tolist() == [int(each.argmax()) for each in p]


def test_a_model_does_not_diverge_from_itself() -> None:
    model = Bigrams(2)
    found = token_scores(IDS, model.predict(IDS), model.predict(IDS))
    assert found.divergence is not None
    assert not found.divergence.any()


def test_a_draft_is_compared_with_what_the_model_says_a_row_later() -> None:
    """Row i of the draft layer has seen token i + 1 and is about token i + 2."""
    logits = np.full((4, 8), -9.0)
    logits[np.arange(4), [1, 2, 3, 4]] = 9.0  # behind token i comes i + 1
    drafts = np.full((3, 8), -9.0)
    drafts[np.arange(3), [2, 3, 7]] = 9.0  # the last one is wrong
    found = token_scores((0, 1, 2, 3), Prediction(logits, drafts)).own.drafts
    assert found is not None
    assert found.accepted.tolist() == [True, True, False]
    assert found.told.tolist() == [log_shares(drafts)[0, 2], log_shares(drafts)[1, 3]]
    assert np.all(found.overlap[:2] > 0.99)
    assert found.overlap[2] < 1e-6


def test_large_logits_overflow_nothing() -> None:
    logits = np.array([[1e4, 0.0], [-1e4, 0.0]])
    assert log_shares(logits).tolist() == [[0.0, -1e4], [-1e4, 0.0]]


def test_a_text_of_one_token_tells_nothing() -> None:
    found = token_scores((3,), Bigrams(drafts=True).predict((3,)))
    assert found.own.told.size == 0
    assert found.own.drafts is None
