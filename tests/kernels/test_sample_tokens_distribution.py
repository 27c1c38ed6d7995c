"""Tokens of the kernel have the distribution of the model, however drafts are verified.

Pearson's test, seeds fixed.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.ir.step_state import DRAFT_CANDIDATES, State, Verification
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.token_choice import choice_weights
from tests.chi_square import chi_square_p
from tests.kernels.sampling_case import Rows, sampling_kernel
from tests.kernels.vector_case import Floats, build, run

Integers = NDArray[np.int64]

LOSSLESS = (Verification.EXACT, Verification.REJECTION, Verification.BLOCK)
VOCABULARY, DRAFTS, COUNT = 4, 2, 2_500

OPTIONS: dict[str, dict[str, float]] = {
    "plain": {"temperature": 1.0},
    "top_k": {"temperature": 1.5, "top_k": 3},
    "nucleus": {"temperature": 0.8, "top_p": 0.9},
}


@pytest.mark.parametrize(
    "turns", [1, pytest.param(14, marks=pytest.mark.nightly)], ids=["short", "long"]
)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("verification", LOSSLESS)
def test_texts_have_the_exact_distribution(
    verification: Verification, name: str, turns: int
) -> None:
    """Texts of three tokens, 2,500 or 35,000; what a step leaves open is drawn from the model.

    The model's next token depends on all before it, and so does the draft's, which is sharper or
    flatter; every token of a step is behind another text.
    """
    options = OPTIONS[name] | {"verification": verification}
    random = np.random.default_rng(7)
    model = [random.standard_normal((VOCABULARY,) * (i + 1)) * 1.5 for i in range(DRAFTS + 1)]
    draft = [each * 0.6 + random.standard_normal(each.shape) * 0.5 for each in model[:DRAFTS]]
    p = [_weights(each, options) for each in model]
    q = [_weights(each, {"temperature": 1.0, "top_k": VOCABULARY - 1}) for each in draft]
    built = build(
        sampling_kernel(VOCABULARY, DType.F32, COUNT * (DRAFTS + 1), COUNT, drafts=DRAFTS)
    )
    counts = np.zeros((VOCABULARY,) * (DRAFTS + 1), np.int64)
    for turn in range(turns):
        drafts = _draw_texts(random, q, np.zeros((COUNT, 0), np.int64))
        rows = _rows(model, q, drafts, options, turn)
        tokens = run(built, rows.inputs, len(rows.logits))["tokens"].reshape(COUNT, -1)
        accepted = np.cumprod(tokens[:, :DRAFTS] == drafts, axis=1).sum(axis=1)
        for length in range(1, DRAFTS + 2):
            texts = tokens[accepted == length - 1, :length].astype(np.int64)
            np.add.at(counts, tuple(_draw_texts(random, p, texts).T), 1)
    joint = np.ones(())
    for each in p:
        joint = joint[..., None] * each
    assert counts.sum() == turns * COUNT
    assert chi_square_p(counts.reshape(-1), joint.reshape(-1)) > 1e-3


def test_blocks_are_accepted_more_often_and_as_often_as_they_should_be() -> None:
    """With two drafts of independent tokens, rejection takes `a + a^2`, `a` the overlap."""
    random = np.random.default_rng(1)
    one, other = random.standard_normal((2, VOCABULARY)) * 1.2
    options: dict[str, float] = {"temperature": 1.0}
    p, q = (_weights(each, options) for each in (one, other))
    model = [np.broadcast_to(one, (VOCABULARY,) * (i + 1)) for i in range(DRAFTS + 1)]
    given = [np.broadcast_to(q, (VOCABULARY,) * (i + 1)) for i in range(DRAFTS)]
    drafts = _draw_texts(random, given, np.zeros((COUNT, 0), np.int64))
    built = build(
        sampling_kernel(VOCABULARY, DType.F32, COUNT * (DRAFTS + 1), COUNT, drafts=DRAFTS)
    )
    mean: dict[Verification, float] = {}
    for verification in LOSSLESS:
        rows = _rows(model, given, drafts, options | {"verification": verification}, 5)
        tokens = run(built, rows.inputs, len(rows.logits))["tokens"].reshape(COUNT, -1)
        accepted = np.cumprod(tokens[:, :DRAFTS] == drafts, axis=1).sum(axis=1)
        mean[verification] = float(accepted.mean())
    overlap, same = float(np.minimum(p, q).sum()), float((p * q).sum())
    spread = 4 * DRAFTS / np.sqrt(COUNT)
    assert abs(mean[Verification.EXACT] - (same + same**2)) < spread
    assert abs(mean[Verification.REJECTION] - (overlap + overlap**2)) < spread
    assert abs(mean[Verification.BLOCK] - _block_length(p, q)) < spread
    assert mean[Verification.BLOCK] > mean[Verification.REJECTION] > mean[Verification.EXACT]


def _block_length(p: Floats, q: Floats) -> float:
    """Return the mean number of drafts that a block of two takes: from h of the algorithm."""
    total = 0.0
    for x in range(p.size):
        first = min(p[x] / q[x], 1)
        left = np.maximum(first * p - q, 0).sum()
        h1 = left / (left + 1 - first) if left + 1 - first > 0 else 0.0
        for y in range(p.size):
            h2 = min(first * p[y] / q[y], 1)
            total += q[x] * q[y] * (2 * h2 + (1 - h2) * h1)
    return total


def _weights(logits: Floats, options: dict[str, float]) -> Floats:
    chosen = Rows.of(np.zeros((1, 1), np.float32), [options]).options[0].astype(np.float64)
    flat = logits.reshape(-1, logits.shape[-1]).astype(np.float32).astype(np.float64)
    weights = np.stack([choice_weights(row, chosen) for row in flat])
    return (weights / weights.sum(axis=1, keepdims=True)).reshape(logits.shape)


def _draw_texts(random: np.random.Generator, shares: list[Floats], texts: Integers) -> Integers:
    """Draw what texts lack, a token after the other."""
    for i in range(texts.shape[1], len(shares)):
        cumulative = np.cumsum(shares[i][tuple(texts.T)], axis=-1)
        u = random.random((len(texts), 1)) * cumulative[..., -1:]
        drawn = (np.broadcast_to(cumulative, (len(texts), VOCABULARY)) <= u).sum(axis=1)
        texts = np.concatenate([texts, np.minimum(drawn, VOCABULARY - 1)[:, None]], axis=1)
    return texts


def _rows(
    model: list[Floats], q: list[Floats], drafts: Integers, options: dict[str, float], turn: int
) -> Rows:
    logits = np.stack(
        [np.broadcast_to(each[tuple(drafts[:, :i].T)], (COUNT, VOCABULARY))
         for i, each in enumerate(model)], axis=1,
    )  # fmt: skip
    rows = Rows.of(logits.reshape(-1, VOCABULARY).astype(np.float32), [options], 100 + turn, DRAFTS)
    rows.state[:, State.SEED_HIGH] = np.arange(COUNT)
    rows.token_ids.reshape(COUNT, -1)[:, 1:] = drafts
    assert VOCABULARY <= DRAFT_CANDIDATES
    for i, each in enumerate(q):
        shares = np.broadcast_to(each[tuple(drafts[:, :i].T)], (COUNT, VOCABULARY))
        order = np.argsort(-shares, axis=1, kind="stable")
        rows.draft_ids[:, i, :VOCABULARY] = order
        rows.draft_probs[:, i, :VOCABULARY] = np.take_along_axis(shares, order, 1)
    return rows
