"""Penalties of the kernel are those of the reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.step_state import Option, State
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.token_choice import penalised
from tests.kernels.sampling_case import Rows, check, penalised_f32, sample
from tests.kernels.vector_case import FEW_CORES

_U = DType.F32.unit_roundoff

PENALTIES: list[dict[str, float]] = [
    {},
    {"repetition": 2.0},
    {"repetition": 0.5},
    {"repetition": 1.0, "presence": 0.75},
    {"frequency": 0.5},
    {"presence": -0.25, "frequency": -0.5},
    {"repetition": 4.0, "presence": 0.25, "frequency": 0.125},
]
"""Of powers of two, so that nothing is rounded."""


@settings(max_examples=200)
@given(
    st.floats(0.0078125, 100, width=32),
    st.floats(-3, 3, width=32),
    st.floats(-3, 3, width=32),
    st.integers(0, 2**31 - 1),
)
def test_rounding_of_penalties(
    repetition: float, presence: float, frequency: float, seed: int
) -> None:
    """A product with a rounded inverse, and two differences of rounded products."""
    random = np.random.default_rng(seed)
    logits = (random.standard_normal(100) * 10 ** random.uniform(-3, 3)).astype(np.float32)
    logits[:3] = 0, -0.0, -np.inf
    counts = random.integers(0, 5, 100).astype(np.int32) * random.integers(0, 2, 100)
    counts[3] = 2**20 + 1
    options = np.zeros(len(Option), np.float32)
    options[Option.REPETITION] = repetition
    options[Option.PRESENCE], options[Option.FREQUENCY] = presence, frequency
    exact = penalised(logits, options.astype(np.float64), counts)
    found = penalised_f32(logits, options, counts.astype(np.int32))
    emitted = counts >> 1
    alone = np.where(np.arange(len(options)) == Option.REPETITION, options, 0)
    scaled = penalised(logits, alone.astype(np.float64), counts)
    finite = np.isfinite(exact)
    taken = np.abs(frequency * emitted) + np.abs(presence)
    bound = (4 * np.abs(scaled) + 4 * taken) * _U + 1e-44
    assert (np.abs(found[finite] - exact[finite]) <= bound[finite]).all()
    np.testing.assert_array_equal(found[~finite], exact[~finite])


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("columns", [1, 7, 64, 65, 1_025, 4_097, 9_001])
def test_the_best_token_is_exact(columns: int, dtype: DType) -> None:
    random = np.random.default_rng(columns)
    logits = random.integers(-12, 13, (42, columns)) / 4
    rows = Rows.of(logits.astype(dtype.numpy), PENALTIES)
    rows.count_texts(1, 400)
    np.testing.assert_array_equal(sample(rows, dtype), rows.expected())
    np.testing.assert_array_equal(sample(rows, dtype, FEW_CORES), rows.expected())


@pytest.mark.parametrize("drafts", [1, 3])
@pytest.mark.parametrize("columns", [9, 4_500])
def test_drafts_before_a_row_count(columns: int, drafts: int) -> None:
    """Few tokens are likely, and drafts are among them: also twice, and in the last tile."""
    random = np.random.default_rng(columns)
    logits = random.integers(-12, 0, (42 * (drafts + 1), columns)) / 4
    likely = np.array([0, 3, columns - 1])
    logits[:, likely] = random.integers(4, 9, (len(logits), 3)) / 4
    rows = Rows.of(logits.astype(np.float32), PENALTIES, drafts=drafts)
    rows.count_texts(1, 5)
    rows.token_ids[:] = random.choice(likely, len(logits))
    expected = rows.expected()
    np.testing.assert_array_equal(sample(rows), expected)
    np.testing.assert_array_equal(sample(rows, target=FEW_CORES), expected)
    rows.token_ids[:] = 1
    assert (expected != rows.expected()).any()


@pytest.mark.parametrize("columns", [100, 4_500])
def test_whether_a_token_follows_is_told_before_penalties(columns: int) -> None:
    random = np.random.default_rng(1)
    logits = random.integers(1, 9, (14, columns)).astype(np.float32)
    logits[0] = 0
    logits[1] = 0  # but for one
    logits[1, columns - 1] = -3
    logits[2] = 2  # penalties leave 0 of every logit
    logits[3, columns // 2] = np.nan
    logits[4, columns - 1] = np.inf
    logits[5] = -np.inf
    logits[6] = 0  # where tiles start
    logits[6, 1:] = -1
    logits[7:, :] = logits[:7]
    for penalties in PENALTIES[1:]:
        rows = Rows.of(logits, [penalties, {**penalties, "temperature": 1.0}])
        rows.counts = np.full((1, columns), 3, np.int32)
        rows.counts[0, columns // 3] = 0
        if "frequency" in penalties:
            logits[2] = logits[9] = penalties["frequency"] + penalties.get("presence", 0)
        rows.stop_ids[7:, 0] = columns - 1  # which would be NaN, infinite, or not 0
        rows.state[7:, State.MINIMUM] = 99
        expected = rows.expected()
        assert (expected[[0, 3, 4, 5, 7, 10, 11, 12]] == -1).all()
        assert ((sample(rows) == -1) == (expected == -1)).all()


def test_penalties_with_filters_and_long_prefixes() -> None:
    random = np.random.default_rng(3)
    options: list[dict[str, float]] = [
        {"temperature": 1.0, "repetition": 1.2},
        {"temperature": 0.7, "top_k": 20, "presence": 0.4},
        {"temperature": 1.5, "top_p": 0.97, "frequency": 0.3, "repetition": 0.9},
        {"temperature": 3.0, "min_p": 0.02, "repetition": 1.3},
        {"temperature": 1.0, "top_k": 3_000, "presence": -0.5},
    ]
    logits = random.standard_normal((20, 9_001)).astype(np.float32)
    rows = Rows.of(logits, options)
    rows.count_texts(4, 3_000)
    assert check(rows) > 0.5
