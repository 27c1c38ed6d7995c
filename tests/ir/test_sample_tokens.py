"""Sampling: random numbers against published answers, choice against a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import SampleTokens
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    Stream,
)
from ascendfx.ir.token_choice import choice_weights
from ascendfx.ir.uniform import philox, uniform
from tests.chi_square import chi_square_p

_ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((_ONES,) * 4, (_ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_has_the_published_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = (np.array(word, np.uint64) for word in counter)
    k0, k1 = (np.array(word, np.uint64) for word in key)
    assert philox((c0, c1, c2, c3), (k0, k1)).tolist() == list(words)


def test_numbers_of_streams_and_places_and_steps_are_independent() -> None:
    index = np.arange(100_000)
    seed = np.full_like(index, -7)
    drawn = [uniform(seed, seed, index, stream, step) for stream in Stream for step in (0, 1)]
    drawn.append(uniform(seed, seed, np.full_like(index, 3), Stream.DRAFT, index))
    for each in drawn:
        assert 0 <= each.min() < each.max() < 1
        counts, _ = np.histogram(each, bins=64, range=(0, 1))
        assert chi_square_p(counts, np.ones(64)) > 1e-4
    for other in (*drawn[1:], np.roll(drawn[0], 1)):
        assert abs(np.corrcoef(drawn[0], other)[0, 1]) < 0.02


def _sampled(logits: Array, **options: float) -> list[int]:
    """Return a token per row of one request, row ``i`` at position ``i``."""
    rows = len(logits)
    chosen = np.zeros((1, OPTION_COLUMNS))
    for name, value in options.items():
        chosen[0, Option[name.upper()]] = value
    state = np.zeros((1, STATE_COLUMNS), np.int64)
    state[0, State.SEED_LOW] = 11
    stops = np.full((1, STOP_COLUMNS), -1)
    operands = (logits, chosen, state, stops, np.arange(rows), np.zeros(rows, np.int64))
    operands = (*operands, np.zeros((1, logits.shape[1]), np.int64))
    return SampleTokens().reference(*operands)[0].tolist()


@given(st.lists(st.sampled_from([-2.0, 0.5, 0.5, 1.0, 3.0]), min_size=1, max_size=12))
def test_without_temperature_it_is_the_first_of_the_largest(row: list[float]) -> None:
    assert _sampled(np.array([row])) == [int(np.argmax(row))]


@given(
    st.lists(st.integers(-8, 8), min_size=1, max_size=9),
    st.integers(0, 10),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    st.sampled_from([0.0, 0.2, 1.0]),
    st.sampled_from([0.3, 1.0, 2.0]),
)
def test_filters_keep_a_prefix_of_the_order(
    halves: list[int], top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    logits = np.array(halves) / 2
    options = np.zeros(OPTION_COLUMNS)
    options[Option.TEMPERATURE], options[Option.TOP_K] = temperature, top_k
    options[Option.TOP_P], options[Option.MIN_P] = top_p, min_p
    kept = choice_weights(logits, options)

    weights = np.exp((logits - logits.max()) / temperature)
    order = sorted(range(len(logits)), key=lambda token: (-weights[token], token))
    left = order[:top_k] if top_k else order
    total, mass, prefix = sum(weights[token] for token in left), 0.0, list[int]()
    for token in left:
        if 0 < top_p < 1 and prefix and mass >= top_p * total:
            break
        prefix.append(token)
        mass += weights[token]
    wanted = {token for token in prefix if weights[token] >= min_p} or {order[0]}
    assert set(np.flatnonzero(kept)) == wanted
    assert all(kept[token] == weights[token] for token in wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 4},
        {"temperature": 1.5, "top_p": 0.8},
        {"temperature": 1.0, "min_p": 0.2},
    ],
)
def test_tokens_have_the_distribution(options: dict[str, float]) -> None:
    row = np.array([0.3, -1.0, 2.0, 2.0, 0.0, -4.0, 1.2, 0.3])
    rows = 20_000
    tokens = _sampled(np.tile(row, (rows, 1)), **options)
    chosen = np.zeros(OPTION_COLUMNS)
    for name, value in options.items():
        chosen[Option[name.upper()]] = value
    weights = choice_weights(row, chosen)
    counts = np.bincount(tokens, minlength=row.size)
    assert chi_square_p(counts, weights) > 1e-4


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_without_numbers_choose_nothing(bad: float) -> None:
    rows = np.array([[0.0, 1.0, bad], [0.0, 0.0, 0.0], [-np.inf] * 3, [bad, bad, bad]])
    assert _sampled(rows) == [-1, -1, -1, -1]
    assert _sampled(rows, temperature=1.0) == [-1, -1, -1, -1]


def test_stop_tokens_wait_for_the_minimum() -> None:
    logits = np.array([[0.0, 3.0, 1.0]] * 3)
    state = np.zeros((1, STATE_COLUMNS), np.int64)
    state[0, [State.LENGTH, State.GENERATED, State.MINIMUM]] = 5, 1, 3
    stops = np.array([[1, -1, -1, -1, -1, -1, -1, 9]])
    operands = (logits, np.zeros((1, OPTION_COLUMNS)), state, stops)
    rows = (np.array([5, 6, 7]), np.zeros(3, np.int64), np.zeros((1, 3), np.int64))
    assert SampleTokens().reference(*operands, *rows)[0].tolist() == [2, 2, 1]
