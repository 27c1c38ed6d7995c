"""Speculative sampling: whatever the drafts, tokens have the main model's distribution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import RejectDrafts, SampleDrafts, SampleTokens
from ascendfx.ir.ops.sample_tokens import choice_weights
from ascendfx.ir.step_state import OPTION_COLUMNS, STATE_COLUMNS, STOP_COLUMNS, Option, State
from tests.chi_square import chi_square_p

_VOCABULARY = 9


def _state(places: int, drafted: int) -> Array:
    state = np.zeros((places, STATE_COLUMNS), np.int64)
    state[:, State.SEED_LOW] = np.arange(places)
    state[:, State.SEED_HIGH] = 77
    state[:, State.DRAFTED] = drafted
    return state


def _options(places: int, **chosen: float) -> Array:
    options = np.zeros((places, OPTION_COLUMNS))
    for name, value in chosen.items():
        options[:, Option[name.upper()]] = value
    return options


def _logits(seed: int, drafts: int) -> tuple[Array, Array]:
    """Return logits of the main and of the draft model after each row; they share a little."""
    random = np.random.default_rng(seed)
    main = random.standard_normal((drafts + 1, _VOCABULARY)) * 1.5
    return main, main[:drafts] * 0.7 + random.standard_normal((drafts, _VOCABULARY))


def _drafted(
    places: int, drafts: int, kept: int, seed: int, **chosen: float
) -> tuple[Array, tuple[Array, ...]]:
    """Return the main model's logits of a place, and the operands of `RejectDrafts`."""
    main, draft = _logits(seed, drafts)
    options, state = _options(places, **chosen), _state(places, drafts)
    stops = np.full((places, STOP_COLUMNS), -1)
    rows = places * (drafts + 1)
    positions = np.tile(np.arange(drafts + 1) + 3, places)
    tokens = np.zeros((places, drafts + 1), np.int64)
    ids, probabilities = [], []
    for depth in range(drafts):
        found = SampleDrafts(kept, 2 + depth).reference(
            np.tile(draft[depth], (places, 1)),
            options,
            state,
            stops,
            np.full(places, 2),
            np.arange(places),
        )
        tokens[:, depth + 1] = found[0]
        ids.append(found[1])
        probabilities.append(found[2])
    control = (options, state, stops, positions, tokens.reshape(rows))
    recorded = np.stack(ids, 1), np.stack(probabilities, 1)
    return main, (np.tile(main, (places, 1)), *control, *recorded)


@pytest.mark.parametrize("kept", [1, 3, _VOCABULARY])
@pytest.mark.parametrize(
    "chosen",
    [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 4},
        {"temperature": 1.5, "top_p": 0.8},
        {"temperature": 1.0, "min_p": 0.2},
    ],
)
@pytest.mark.parametrize("places", [2_000, pytest.param(40_000, marks=pytest.mark.nightly)])
def test_tokens_have_the_distribution_of_the_main_model(
    chosen: dict[str, float], kept: int, places: int
) -> None:
    """The token after row 0, and that after row 1 where the first draft was accepted."""
    main, operands = _drafted(places, 2, kept, seed=kept, **chosen)
    accepted, _, new = RejectDrafts(2).reference(*operands)
    tokens = operands[5].reshape(places, 3)
    for row in range(2):
        reached = accepted >= row
        if not reached.any():
            continue
        emitted = np.where(accepted > row, tokens[:, row + 1], new)[reached]
        counts = np.bincount(emitted, minlength=_VOCABULARY)
        weights = choice_weights(main[row], operands[1][0])
        assert chi_square_p(counts, weights) > 1e-3
    last = new[accepted == 2]
    if last.size:
        counts = np.bincount(last, minlength=_VOCABULARY)
        assert chi_square_p(counts, choice_weights(main[2], operands[1][0])) > 1e-3


@pytest.mark.parametrize("kept", [2, _VOCABULARY])
def test_a_draft_is_accepted_as_often_as_the_distributions_agree(kept: int) -> None:
    """`sum(min(p, q))`, more than `sum(p q)`, at which a sampled token equals the draft."""
    places = 5_000
    main, operands = _drafted(places, 1, kept, seed=3, temperature=1.0)
    accepted = RejectDrafts(1).reference(*operands)[0]
    p = choice_weights(main[0], operands[1][0])
    p, q = p / p.sum(), np.zeros(_VOCABULARY)
    known = operands[6][0, 0] >= 0
    q[operands[6][0, 0][known]] = operands[7][0, 0][known]
    wanted = np.minimum(p, q).sum()
    assert abs(accepted.mean() - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / places)
    assert wanted > (p * q).sum()


@given(st.integers(0, 200), st.integers(1, 4), st.integers(1, _VOCABULARY))
def test_greedy_drafts_are_verified_as_exact_matches(seed: int, drafts: int, kept: int) -> None:
    main, operands = _drafted(3, drafts, kept, seed)
    accepted, last_rows, new = RejectDrafts(drafts).reference(*operands)
    best = np.argmax(main, axis=1)
    tokens = operands[5].reshape(3, drafts + 1)
    for place in range(3):
        equal = np.cumprod(tokens[place, 1:] == best[:drafts]).sum()
        assert accepted[place] == equal
        assert last_rows[place] == place * (drafts + 1) + equal
        assert new[place] == best[equal]


@given(st.integers(0, 200), st.floats(0.1, 3.0))
def test_the_same_distribution_is_always_accepted(seed: int, temperature: float) -> None:
    main, operands = _drafted(20, 2, _VOCABULARY, seed, temperature=temperature)
    logits, options, state, stops, *rest = operands
    tokens = rest[1].reshape(20, 3)
    ids, probabilities = np.array(rest[2]), np.array(rest[3])
    for depth in range(2):
        weights = choice_weights(main[depth], options[0])
        ids[:, depth] = np.arange(_VOCABULARY)
        probabilities[:, depth] = weights / weights.sum()
        tokens[:, depth + 1] = np.arange(20) % _VOCABULARY
    again = RejectDrafts(2).reference(
        logits, options, state, stops, rest[0], tokens.reshape(-1), ids, probabilities
    )
    assert (again[0] == 2).all()


def test_drafts_without_probabilities_are_lossless() -> None:
    """Placeholders and known tokens count as certain: accepted with probability ``p(d)``."""
    places = 5_000
    main, operands = _drafted(places, 1, 2, seed=5, temperature=1.0)
    logits, options, state, stops, positions, tokens, ids, probabilities = operands
    tokens = np.array(tokens)
    tokens[1::2] = 4
    arguments = (logits, options, state, stops, positions, tokens, ids * 0 - 1, probabilities)
    accepted, _, new = RejectDrafts(1).reference(*arguments)
    emitted = np.where(accepted > 0, 4, new)
    weights = choice_weights(main[0], options[0])
    assert chi_square_p(np.bincount(emitted, minlength=_VOCABULARY), weights) > 1e-3
    share = weights[4] / weights.sum()
    assert abs(accepted.mean() - share) < 4 * np.sqrt(share * (1 - share) / places)


def test_places_without_drafts_sample_as_ever() -> None:
    main, operands = _drafted(50, 2, 3, seed=6, temperature=1.0, top_k=5)
    logits, options, state, stops, positions, tokens, *recorded = operands
    state[:, State.DRAFTED] = 0
    accepted, last_rows, new = RejectDrafts(2).reference(
        logits, options, state, stops, positions, tokens, *recorded
    )
    rows = np.arange(50) * 3
    expected = SampleTokens().reference(
        logits[rows], options, state, stops, positions[rows], np.arange(50)
    )[0]
    assert not accepted.any()
    np.testing.assert_array_equal(last_rows, rows)
    np.testing.assert_array_equal(new, expected)
    assert main.shape == (3, _VOCABULARY)


def test_a_row_without_numbers_ends_the_accepted_ones() -> None:
    _, operands = _drafted(4, 2, _VOCABULARY, seed=1, temperature=1.0)
    logits = np.array(operands[0])
    logits[0::3] = np.nan
    accepted, _, new = RejectDrafts(2).reference(logits, *operands[1:])
    assert accepted.tolist() == [0] * 4
    assert new.tolist() == [-1] * 4


def test_recorded_probabilities_are_those_after_every_filter() -> None:
    logits = np.log(np.array([[0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1], [np.nan, 1, 1, 1]]))
    options = _options(3, temperature=1.0)
    options[1, Option.TOP_K] = 2
    stops = np.full((3, STOP_COLUMNS), -1)
    drafts, ids, probabilities = SampleDrafts(3).reference(
        logits, options, _state(3, 1), stops, np.arange(3), np.arange(3)
    )
    assert ids.tolist() == [[0, 1, 2], [0, 1, -1], [-1, -1, -1]]
    wanted = [[4 / 9, 3 / 9, 2 / 9], [4 / 7, 3 / 7, 0], [0, 0, 0]]
    np.testing.assert_allclose(probabilities, wanted)
    assert drafts[2] == -1
    assert set(drafts[:2].tolist()) <= {0, 1, 2}
