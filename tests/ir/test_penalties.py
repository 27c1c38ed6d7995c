"""Penalties: the formulas, transformers' processor, and which tokens of the text count."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import RepetitionPenaltyLogitsProcessor

from ascendfx.ir.op import Array
from ascendfx.ir.ops import SampleTokens
from ascendfx.ir.step_state import OPTION_COLUMNS, STATE_COLUMNS, STOP_COLUMNS, Option, State
from ascendfx.ir.token_choice import penalised, wants_penalties

_VOCABULARY = 6


def _options(**chosen: float) -> Array:
    options = np.zeros(OPTION_COLUMNS)
    for name, value in chosen.items():
        options[Option[name.upper()]] = value
    return options


def _counts(prompt: list[int], emitted: list[int]) -> Array:
    counts = np.zeros(_VOCABULARY, np.int64)
    counts[prompt] = 1
    np.add.at(counts, emitted, 2)
    return counts


TOKENS = st.lists(st.integers(0, _VOCABULARY - 1), max_size=8)
LOGITS = st.lists(st.floats(-50, 50, width=32), min_size=_VOCABULARY, max_size=_VOCABULARY)


@given(LOGITS, TOKENS, TOKENS, st.sampled_from([0.25, 0.9, 1.0, 1.3, 5.0]))
def test_repetition_is_that_of_transformers(
    logits: list[float], prompt: list[int], emitted: list[int], penalty: float
) -> None:
    text = [*prompt, *emitted]
    expected = torch.tensor([logits], dtype=torch.float64)
    if text:
        processor = RepetitionPenaltyLogitsProcessor(penalty)
        expected = processor(torch.tensor([text]), expected)  # pyright: ignore[reportArgumentType]
    found = penalised(np.array(logits), _options(repetition=penalty), _counts(prompt, emitted))
    np.testing.assert_allclose(found, expected[0].numpy(), rtol=1e-12)


@given(
    LOGITS,
    TOKENS,
    TOKENS,
    st.sampled_from([0.0, 1.0, 1.5]),
    st.floats(-2, 2),
    st.floats(-2, 2),
)
def test_presence_and_frequency_count_new_tokens_only(
    logits: list[float],
    prompt: list[int],
    emitted: list[int],
    repetition: float,
    presence: float,
    frequency: float,
) -> None:
    """They come after the repetition penalty, which counts the prompt as well."""
    options = _options(repetition=repetition, presence=presence, frequency=frequency)
    found = penalised(np.array(logits), options, _counts(prompt, emitted))
    for token, logit in enumerate(logits):
        expected = logit
        if repetition and token in (*prompt, *emitted):
            expected = logit / repetition if logit > 0 else logit * repetition
        expected -= presence * (token in emitted) + frequency * emitted.count(token)
        assert found[token] == pytest.approx(expected, abs=1e-9)
    wanted = presence or frequency or repetition not in (0, 1)
    assert wants_penalties(options) == bool(wanted)
    if not wanted:
        np.testing.assert_array_equal(found, logits)


def _chosen(
    logits: Array,
    token_ids: list[int],
    counts: Array,
    *,
    drafts: int,
    options: Array,
    place: int = 2,
) -> list[int]:
    """Return the tokens behind the rows of one request, its counts in one row of several."""
    rows = len(token_ids)
    state = np.zeros((1, STATE_COLUMNS), np.int64)
    state[0, [State.DRAFTED, State.PLACE]] = drafts, place
    table = np.full((4, _VOCABULARY), 40)
    table[place] = counts
    operands = (
        logits,
        options[None],
        state,
        np.full((1, STOP_COLUMNS), -1),
        np.arange(rows),
        np.zeros(rows, np.int64),
        table,
    )
    kept = np.full((1, drafts, 2), -1), np.zeros((1, drafts, 2))
    more = (np.array(token_ids), *kept) if drafts else ()
    before = [each.copy() for each in operands]
    tokens = SampleTokens(drafts).reference(*operands, *more)[0].tolist()
    for now, then in zip(operands, before, strict=True):
        np.testing.assert_array_equal(now, then)
    return tokens


def test_the_counts_are_those_of_the_requests_place() -> None:
    logits = np.array([[0.0, 3.0, 2.5, 1.0, 0.0, 0.0]])
    for place in range(4):
        assert _chosen(
            logits, [0], _counts([], [1]), drafts=0, place=place, options=_options(presence=1)
        ) == [2]
        assert _chosen(
            logits, [0], _counts([1], []), drafts=0, place=place, options=_options(presence=1)
        ) == [1]
        assert _chosen(
            logits, [0], _counts([1], []), drafts=0, place=place, options=_options(repetition=2)
        ) == [2]


def test_drafts_in_earlier_rows_count() -> None:
    """Every row has the same logits: what comes next was not drafted before; row 0's token did."""
    logits = np.tile(np.array([5.0, 4.9, 4.8, 4.7, 4.6, 4.5]), (4, 1))
    counts = _counts([], [5])
    assert _chosen(logits, [5, 0, 1, 0], counts, drafts=3, options=_options(presence=1)) == [
        0,
        1,
        2,
        2,
    ]
    assert _chosen(logits, [5, 0, 0, 1], counts, drafts=3, options=_options(frequency=0.15)) == [
        0,
        1,
        1,
        2,
    ]
    assert _chosen(logits, [5, 0, 1, 0], counts, drafts=3, options=_options(temperature=0)) == [
        0,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("penalty", ["repetition", "presence", "frequency"])
def test_rows_with_drafts_choose_as_if_the_drafts_had_been_emitted(penalty: str) -> None:
    random, options = np.random.default_rng(4), _options(**{penalty: 1.5})
    for _ in range(50):
        logits = random.standard_normal((3, _VOCABULARY))
        tokens = random.integers(0, _VOCABULARY, 3).tolist()
        prompt, emitted = random.integers(0, _VOCABULARY, (2, 2)).tolist()
        found = _chosen(logits, tokens, _counts(prompt, emitted), drafts=2, options=options)
        for row in range(3):
            text = _counts(prompt, [*emitted, *tokens[1 : 1 + row]])
            alone = _chosen(logits[row : row + 1], [0], text, drafts=0, options=options)
            assert found[row] == alone[0]
