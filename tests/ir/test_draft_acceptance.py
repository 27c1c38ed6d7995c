"""Lossless verification leaves the main model's distribution exactly, whatever is drafted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.draft_acceptance import Rows, coupled_tokens
from ascendfx.ir.op import Array
from ascendfx.ir.step_state import OPTION_COLUMNS, Option, Verification
from ascendfx.ir.token_choice import draw
from tests.ir.exact_distribution import (
    Drafter,
    Model,
    accepted,
    certain,
    continued,
    drawn_by,
    emitted,
    wanted,
)

LOSSLESS = (Verification.EXACT, Verification.REJECTION, Verification.BLOCK)

MODELS = {
    "random": Model(3, 1),
    "impossible": Model(4, 3, impossible=0.5),
    "ties": Model(3, 4, ties=True),
    "peaked": Model(3, 2, spread=3.0),
    "flat": Model(4, 5, spread=0.0),
}
QUICK = ("random", "impossible", "ties")
DRAFTERS: dict[str, Drafter] = {
    "all": drawn_by(Model(3, 11), 3),
    "sharper": drawn_by(Model(3, 12, spread=3.0), 3),
    "two": drawn_by(Model(3, 13), 2),
    "ties": drawn_by(Model(3, 14, ties=True), 2),
    "impossible": drawn_by(Model(3, 15, impossible=0.5), 3),
    "certain": certain(Model(3, 16), recorded=True),
    "not recorded": certain(Model(3, 17), recorded=False),
}


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(
    "model",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in MODELS],
)
@pytest.mark.parametrize("kind", LOSSLESS)
def test_a_step_and_what_follows_is_text_of_the_main_model(
    kind: Verification, model: str, drafter: str
) -> None:
    """The joint distribution of three tokens, of which a step of two drafts emits some."""
    steps = emitted(MODELS[model], DRAFTERS[drafter], 2, kind)
    found = continued(steps, MODELS[model], 3)
    np.testing.assert_allclose(found, wanted(MODELS[model], 3), atol=1e-7)
    one = emitted(MODELS[model], DRAFTERS[drafter], 1, kind)
    found = continued(one, MODELS[model], 2)
    np.testing.assert_allclose(found, wanted(MODELS[model], 2), atol=1e-7)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    main=st.floats(0, 4),
    draft=st.floats(0, 4),
    kept=st.integers(1, 3),
    ties=st.booleans(),
)
def test_longer_blocks_accept_more(
    seed: int, main: float, draft: float, kept: int, *, ties: bool
) -> None:
    """`sum(min(p, q))` against `sum(p q)`; a block accepts at least as many drafts as its rows."""
    model, other = Model(3, seed, main, 0.2, ties), Model(3, seed + 1, draft, 0.2, ties)
    drafter = drawn_by(other, kept)
    p, q = model.p(()), np.zeros(3)
    ids, shares, _ = drafter(())
    q[ids] = shares
    rates = {kind: accepted(emitted(model, drafter, 1, kind)) for kind in LOSSLESS}
    assert rates[Verification.REJECTION] == pytest.approx(np.minimum(p, q).sum(), abs=1e-7)
    assert rates[Verification.EXACT] == pytest.approx((p * q).sum(), abs=1e-7)
    assert rates[Verification.BLOCK] == pytest.approx(rates[Verification.REJECTION], abs=1e-7)
    two = {kind: accepted(emitted(model, drafter, 2, kind)) for kind in LOSSLESS}
    assert two[Verification.EXACT] <= two[Verification.REJECTION] + 1e-7
    assert two[Verification.REJECTION] <= two[Verification.BLOCK] + 1e-7


def test_a_block_accepts_more_than_its_rows() -> None:
    """Not only as many: the example of the two-token vocabulary in section 2 of the paper."""
    main, draft = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])
    rates = [_of_two(main, draft, kind) for kind in (Verification.REJECTION, Verification.BLOCK)]
    assert rates[0] == pytest.approx(10 / 9, abs=1e-6)
    assert rates[1] == pytest.approx(11 / 9, abs=1e-6)


def _of_two(main: Array, draft: Array, kind: Verification) -> float:
    class Fixed(Model):
        def logits(self, text: tuple[int, ...]) -> Array:
            return np.log(main)

    return accepted(emitted(Fixed(2, 0), lambda _: (np.arange(2), draft, True), 2, kind))


def _rows(kind: Verification, **chosen: object) -> Rows:
    """Return the rows of one draft, 1, of three tokens; it was drawn from tokens 1 and 2."""
    options = np.zeros(OPTION_COLUMNS)
    options[Option.TEMPERATURE], options[Option.VERIFICATION] = 1, kind
    values: dict[str, object] = {
        "logits": [np.log([0.5, 0.3, 0.2]), np.log([0.2, 0.2, 0.6])],
        "options": options,
        "drafts": np.array([1]),
        "valid": 1,
        "ids": np.array([[2, 1, -1]]),
        "probabilities": np.array([[0.6, 0.4, 0.0]]),
        "sampled": np.zeros(2),
        "accepted": np.zeros(2),
    }
    return Rows(**{**values, **chosen})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", [Verification.REJECTION, Verification.BLOCK])
def test_a_random_number_of_zero_accepts_what_is_possible(kind: Verification) -> None:
    assert coupled_tokens(_rows(kind))[0] == 1
    impossible = [np.array([0.0, -np.inf, 1.0]), np.zeros(3)]
    assert coupled_tokens(_rows(kind, logits=impossible))[0] == 2
    certain_draft = _rows(
        kind, logits=impossible, ids=np.array([[-1]]), probabilities=np.zeros((1, 1))
    )
    assert coupled_tokens(certain_draft)[0] == 0


@pytest.mark.parametrize("kind", list(Verification))
def test_placeholders_are_not_verified(kind: Verification) -> None:
    rows = _rows(kind, valid=0, sampled=np.array([0.1, 0.9]))
    assert coupled_tokens(rows) == [0, 2]


@pytest.mark.parametrize("kind", list(Verification))
def test_a_row_that_no_token_follows_ends_the_drafts_before_it_or_not(kind: Verification) -> None:
    """What comes before it does not depend on it: the draft is accepted as often."""
    for accept in (0.0, 0.3, 0.74, 0.76, 0.99):
        numbers = {"accepted": np.array([0.0, accept]), "sampled": np.array([0.9, 0.5])}
        rows = _rows(kind, **numbers)
        first, _ = coupled_tokens(rows)
        assert coupled_tokens(_rows(kind, logits=[rows.logits[0], None], **numbers)) == [first, -1]
    assert coupled_tokens(_rows(kind, logits=[None, rows.logits[1]]))[0] == -1


@given(
    st.lists(st.floats(-6, 6), min_size=2, max_size=6),
    st.integers(0, 5),
    st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    st.floats(0, 1, exclude_max=True),
)
def test_typical_drafts_are_those_above_the_threshold(
    logits: list[float], draft: int, temperature: float, threshold: float, scale: float, u: float
) -> None:
    m = _softmax(logits, temperature)
    draft %= len(logits)
    entropy = -sum(share * np.log(share) for share in m if share > 0)
    bound = min(threshold, scale * np.exp(-entropy))
    if abs(m[draft] - bound) < 1e-12:
        return
    rows = _lossy(Verification.TYPICAL, logits, draft, temperature, u)
    rows.options[Option.THRESHOLD], rows.options[Option.SCALE] = threshold, scale
    expected = draft if m[draft] > bound else _drawn(logits, temperature, u)
    assert coupled_tokens(rows)[0] == expected


@given(
    st.lists(st.sampled_from([-2.0, 0.0, 0.0, 0.5, 3.0]), min_size=2, max_size=6),
    st.integers(0, 5),
    st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    st.integers(0, 7),
    st.floats(0, 1, exclude_max=True),
)
def test_relaxed_drafts_are_among_the_first_and_close_to_the_best(
    logits: list[float], draft: int, temperature: float, threshold: float, ranks: int, u: float
) -> None:
    m = _softmax(logits, temperature)
    draft %= len(logits)
    if threshold and abs(m[draft] - max(m) + threshold) < 1e-12:
        return
    first = sorted(range(len(m)), key=lambda token: (-logits[token], token))[:ranks]
    rows = _lossy(Verification.RELAXED, logits, draft, temperature, u)
    rows.options[Option.THRESHOLD], rows.options[Option.RANKS] = threshold, ranks
    taken = draft in first and m[draft] >= max(m) - threshold
    assert coupled_tokens(rows)[0] == (draft if taken else _drawn(logits, temperature, u))


def _softmax(logits: list[float], temperature: float) -> list[float]:
    largest = max(logits)
    weights = [np.exp((each - largest) / (temperature or 1)) for each in logits]
    return [each / sum(weights) for each in weights]


def _drawn(logits: list[float], temperature: float, u: float) -> int:
    if not temperature:
        return int(np.argmax(logits))
    return draw(np.exp((np.array(logits) - max(logits)) / temperature), u)


def _lossy(
    kind: Verification, logits: list[float], draft: int, temperature: float, u: float
) -> Rows:
    rows = _rows(kind, logits=[np.array(logits), None], drafts=np.array([draft]))
    rows.options[Option.TEMPERATURE] = temperature
    rows.sampled[0] = u
    return rows
