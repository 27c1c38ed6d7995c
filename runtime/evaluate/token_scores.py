"""What logits say of a text, token by token; the only numerics of an evaluation.

Sums run over the vocabulary in the order of NumPy, which depends on its size alone, or, for a
distribution, over a row of its own. Nothing is added up over tokens here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.runtime.evaluate.language_model import Ids, Prediction

Floats = NDArray[np.float64]
Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class DraftScores:
    """What the first draft layer says of a text of ``n`` tokens.

    Attributes:
        told: ``[n - 2]``: logarithm of the probability of token i + 2.
        accepted: ``[n - 1]``: whether its likeliest token is that of the model one row later.
        overlap: ``[n - 1]``: sum of ``min(p, q)``, the chance that rejection sampling accepts.
    """

    told: Floats
    accepted: NDArray[np.bool_]
    overlap: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ModelScores:
    """What one model says of a text of ``n`` tokens.

    Attributes:
        told: ``[n - 1]``: logarithm of the probability of token i + 1.
        best: ``[n]``: the likeliest token behind each.
        entropy: ``[n]``: of what it says behind each, in nats.
        drafts: Of its first draft layer, if it has one.
    """

    told: Floats
    best: Tokens
    entropy: Floats
    drafts: DraftScores | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """What a model says, beside the one that it was made of.

    Attributes:
        own: The model.
        truth: The float model, if there is one.
        divergence: ``[n]``: KL(float model | model) in nats.
    """

    own: ModelScores
    truth: ModelScores | None = None
    divergence: Floats | None = None


def token_scores(ids: Ids, own: Prediction, truth: Prediction | None = None) -> TokenScores:
    r"""Return the scores of a text.

    .. math:: D_i = \sum_v p_{iv} (\log p_{iv} - \log q_{iv})

    with ``p`` of the float model and ``q`` of the model.
    """
    told = log_shares(own.logits)
    if truth is None:
        return TokenScores(_scores(ids, own, told))
    true = log_shares(truth.logits)
    divergence = (np.exp(true) * (true - told)).sum(-1)
    return TokenScores(_scores(ids, own, told), _scores(ids, truth, true), divergence)


def log_shares(logits: Floats) -> Floats:
    """Return logarithms of probabilities; the largest logit of a row is subtracted first."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _scores(ids: Ids, said: Prediction, told: Floats) -> ModelScores:
    known = np.array(ids, np.int64)
    shares = np.exp(told)
    best = told.argmax(-1)
    drafts = None
    if said.drafts is not None:
        ahead = log_shares(said.drafts)
        drafts = DraftScores(
            told=_at(ahead[: max(len(ids) - 2, 0)], known[2:]),
            accepted=ahead.argmax(-1) == best[1:],
            overlap=np.minimum(np.exp(ahead), shares[1:]).sum(-1),
        )
    return ModelScores(_at(told[:-1], known[1:]), best, -(shares * told).sum(-1), drafts)


def _at(rows: Floats, tokens: Tokens) -> Floats:
    return rows[np.arange(len(tokens)), tokens]
