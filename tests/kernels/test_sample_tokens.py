"""Tokens of the kernel are those of the reference, up to what `sampling_case` derives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.sample_tokens import plan_sample_tokens
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import State
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.token_choice import choice_weights
from tests.chi_square import chi_square_p
from tests.golden_file import Golden
from tests.kernels.columns_and_formats import columns_and_formats
from tests.kernels.sampling_case import Rows, check, costs, sample, sampling_kernel
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, build, run

V3 = 129_280

MIXTURE: list[dict[str, float]] = [
    {},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 20},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 1.3, "min_p": 0.05},
    {"temperature": 0.6, "top_k": 50, "top_p": 0.95, "min_p": 0.01},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 2.0, "top_p": 1e-6},
]


def _logits(rows: int, columns: int, dtype: DType, seed: int = 0, spread: float = 2.0) -> Array:
    random = np.random.default_rng(seed)
    return (random.standard_normal((rows, columns)) * spread).astype(dtype.numpy)


@pytest.mark.parametrize(
    ("columns", "dtype"),
    columns_and_formats([1, 2, 7, 8, 9, 63, 64, 65, 130, 1_024, 1_025, 4_097, 9_001]),
)
def test_mixtures_of_rows(columns: int, dtype: DType) -> None:
    rows = Rows.of(_logits(64, columns, dtype, columns), MIXTURE)
    assert check(rows, dtype) > 0.9
    check(rows, dtype, FEW_CORES)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([3, 40, 200, 1_300]),
    st.integers(0, 2**31 - 1),
    st.sampled_from([0.0, 0.2, 1.0, 3.0]),
    st.lists(
        st.fixed_dictionaries(
            {
                "temperature": st.sampled_from([0.0, 0.1, 0.5, 1.0, 4.0]),
                "top_k": st.sampled_from([0, 1, 2, 8, 50, 1_000, 1_030, 1_200, 5_000]),
                "top_p": st.sampled_from([0.0, 1e-7, 0.1, 0.5, 0.9, 0.999, 1.0]),
                "min_p": st.sampled_from([0.0, 1e-6, 0.05, 0.5, 1.0]),
            }
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_any_options(
    columns: int, seed: int, spread: float, options: list[dict[str, float]]
) -> None:
    check(Rows.of(_logits(12, columns, DType.F32, seed % 5, spread), options, seed), DType.F32)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_the_vocabulary_of_deepseek_v3(dtype: DType) -> None:
    assert check(Rows.of(_logits(8, V3, dtype), MIXTURE), dtype) > 0.7


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.0, "top_k": 3_000},
        {"temperature": 1.0, "top_k": 4_000, "top_p": 0.9},
        {"temperature": 1.5, "top_p": 0.97},
        {"temperature": 3.0, "min_p": 0.02},
        {"temperature": 2.0, "top_k": 8_000, "top_p": 0.9999999, "min_p": 0.001},
        {"temperature": 2.0, "top_k": 8_999, "min_p": 1e-4},
        {"temperature": 0.1, "top_k": 1_025, "top_p": 0.3},  # the nucleus ends far before k does
        {"temperature": 0.3, "top_k": 1_025, "min_p": 0.1},
    ],
)
def test_prefixes_longer_than_what_is_kept(options: dict[str, float], dtype: DType) -> None:
    rows = Rows.of(_logits(24, 9_000, dtype, 3, spread=1.0), [options])
    assert check(rows, dtype) > 0.5


@pytest.mark.parametrize("columns", [5, 1_500, 5_000])
@pytest.mark.parametrize("value", [0.5, -3.0])
def test_equal_logits(columns: int, value: float) -> None:
    """Weights are 1 and sums exact: ids decide, exactly."""
    options: list[dict[str, float]] = [
        {"temperature": 1.0},
        {"temperature": 1.0, "top_k": 3},
        {"temperature": 1.0, "top_k": 1_200},
        {"temperature": 0.5, "top_p": 0.5},
        {"temperature": 0.5, "top_k": 1_400, "top_p": 0.75},
        {"temperature": 1.0, "min_p": 1.0},
        {"temperature": 1.0, "top_k": 3, "top_p": 0.25},
        {},
    ]
    rows = Rows.of(np.full((64, columns), value, np.float32), options)
    tokens, expected = sample(rows), rows.expected()
    np.testing.assert_array_equal(tokens, expected)


def test_many_ties_at_the_end_of_a_long_prefix() -> None:
    random = np.random.default_rng(5)
    logits = random.integers(-2, 2, (48, 6_000)).astype(np.float32) / 2
    options: list[dict[str, float]] = [
        {"temperature": 1.0, "top_k": 2_222},
        {"temperature": 1.0, "top_p": 0.7},
        {"temperature": 1.0, "top_k": 3_333, "top_p": 0.8},
        {"temperature": 0.5, "min_p": 0.3},
    ]
    assert check(Rows.of(logits, options)) > 0.9


@pytest.mark.parametrize("ascending", [True, False])
def test_every_logit_or_only_the_first_is_a_candidate(*, ascending: bool) -> None:
    row = np.linspace(-9, 9, 20_000, dtype=np.float32)
    logits = np.tile(row if ascending else row[::-1], (8, 1))
    assert check(Rows.of(logits, MIXTURE)) > 0.8


def test_a_random_number_of_zero_takes_the_first_token_that_is_left() -> None:
    logits = np.array([[-np.inf, -np.inf, -1.0, 3.0, 2.0]] * 4, np.float32)
    options: list[dict[str, float]] = [
        {"temperature": 1.0},
        {"temperature": 1.0, "top_k": 2},
        {"temperature": 1.0, "top_p": 0.5},
        {},
    ]
    rows = Rows.of(logits, options)
    rows.state[:, State.SEED_LOW], rows.state[:, State.SEED_HIGH] = 12, 0
    rows.positions[:] = 3_490_574
    assert (rows.drawn() == 0).all()
    assert sample(rows).tolist() == rows.expected().tolist() == [2, 3, 3, 3]


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("columns", [3, 100, 4_500])
def test_rows_without_numbers_choose_nothing(columns: int, dtype: DType) -> None:
    logits = np.zeros((12, columns))
    for row, (place, value) in enumerate(
        (p, v) for p in (0, columns // 2, columns - 1) for v in (np.nan, np.inf)
    ):
        logits[row] = np.linspace(-1, 1, columns)
        logits[row, place] = value
    logits[6] = -np.inf
    logits[8], logits[8, -1] = -np.inf, np.nan
    logits[9, -1] = -1e-30  # not all zeros
    logits[10, 0] = -np.inf
    for option in MIXTURE:
        rows = Rows.of(logits.astype(dtype.numpy), [option])
        expected = rows.expected()
        assert (expected[:9] == -1).all()
        assert (expected[9:11] >= 0).all()
        assert ((sample(rows, dtype) == -1) == (expected == -1)).all()


def test_stop_tokens_wait_for_the_minimum() -> None:
    columns = 5_000
    rows = Rows.of(_logits(32, columns, DType.F32), MIXTURE)
    rows.stop_ids[:] = np.argsort(-rows.logits.astype(np.float64), axis=1)[:, :8]
    rows.stop_ids[::3, 2:] = -1
    rows.state[:, State.LENGTH] = rows.positions - np.arange(32) % 4
    rows.state[:, State.GENERATED] = 2
    rows.state[:, State.MINIMUM] = 4
    banned = np.flatnonzero(np.arange(32) % 4 < 2)
    tokens = sample(rows)
    np.testing.assert_array_equal(tokens, rows.expected())
    for row in banned:
        assert tokens[row] not in rows.stop_ids[row].tolist()


def test_all_that_is_left_is_banned() -> None:
    logits = np.array([[1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [-np.inf, 2.0]], np.float32)
    for option in MIXTURE:
        rows = Rows.of(logits, [option])
        rows.stop_ids[:, :2] = [[0, 1], [0, -1], [0, -1], [1, -1]]
        rows.state[:, State.MINIMUM] = 99
        assert rows.expected().tolist() == sample(rows).tolist() == [-1, -1, -1, -1]


def test_rows_share_the_options_of_their_request() -> None:
    rows = Rows.of(_logits(40, 300, DType.F32), MIXTURE)
    rows.row_request = (np.arange(40, dtype=np.int32) * 7) % 5
    assert check(rows, target=FEW_CORES) > 0.8


DISTRIBUTIONS: dict[str, list[dict[str, float]]] = {
    "plain": [{"temperature": 1.0}],
    "top_k": [{"temperature": 0.7, "top_k": 20}],
    "top_p": [{"temperature": 1.0, "top_p": 0.9}],
    "min_p": [{"temperature": 1.0, "min_p": 0.05}],
    "mixture": [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 20},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 1.0, "min_p": 0.05},
        {"temperature": 1.5, "top_k": 30, "top_p": 0.8, "min_p": 0.02},
    ],
}


@pytest.mark.parametrize(
    "turns", [1, pytest.param(10, marks=pytest.mark.nightly)], ids=["short", "long"]
)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_tokens_have_the_exact_distribution(name: str, turns: int) -> None:
    """10,000 or 100,000 tokens; Pearson's test, seeds fixed."""
    options = DISTRIBUTIONS[name]
    row = (np.random.default_rng(2).standard_normal(61) * 1.5).astype(np.float32)
    row[[7, 9, 50]] = row[3]
    count = 10_000
    rows = Rows.of(np.tile(row, (count, 1)), options)
    built = build(sampling_kernel(row.size, DType.F32, count, count))
    counts = np.zeros((len(options), row.size), np.int64)
    for turn in range(turns):
        rows.state[:, State.SEED_LOW] = turn
        tokens = run(built, rows.inputs, count)["tokens"]
        for i in range(len(options)):
            counts[i] += np.bincount(tokens[i :: len(options)], minlength=row.size)
    assert counts.sum() == turns * count
    for i, found in enumerate(counts):
        weights = choice_weights(row.astype(np.float64), rows.options[i].astype(np.float64))
        assert chi_square_p(found, weights) > 1e-3


@settings(max_examples=60)
@given(
    columns=st.integers(1, 300_000), capacity=st.integers(1, 5_000), requests=st.integers(1, 999)
)
def test_every_plan_fits_local_memory(columns: int, capacity: int, requests: int) -> None:
    for dtype in (DType.F32, DType.BF16):
        plan = plan_sample_tokens(
            rows=DeviceSize(0, capacity),
            requests=requests,
            places=requests,
            columns=columns,
            dtype=dtype,
            target=TARGET,
        )
        assert local_bytes(plan.local) <= TARGET.unified_buffer
        assert plan.tiles * plan.tile >= columns > (plan.tiles - 1) * plan.tile


def test_ids_beyond_what_float_holds_are_refused() -> None:
    with pytest.raises(GraphError, match="16,777,217 tokens, at most 16,777,216"):
        sampling_kernel(2**24 + 1, DType.F32, 1, 1)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_golden(golden: Golden, dtype: DType) -> None:
    kernel = sampling_kernel(V3, dtype, 64, 32)
    golden.check(f"ascendc/sample_tokens_{dtype.value}.cpp", kernel.source)


def test_golden_with_drafts(golden: Golden) -> None:
    kernel = sampling_kernel(V3, DType.BF16, 64, 32, drafts=1, places=48)
    golden.check("ascendc/sample_tokens_drafts.cpp", kernel.source)


def _costs(options: list[dict[str, float]]) -> tuple[float, float, float]:
    """Return vector instructions, elements computed and bytes read, per row of V3's vocabulary."""
    cost = costs(Rows.of(_logits(4, V3, DType.F32, spread=6.0), options))
    return cost.instructions, cost.elements, cost.bytes_read


def test_costs_depend_neither_on_k_nor_on_p() -> None:
    """Rows with filters: one read, vector work within 10 %, instructions within 20 %."""
    filters: list[list[dict[str, float]]] = [
        *([{"temperature": 1.0, "top_k": k}] for k in (1, 8, 50, 1_000)),
        *([{"temperature": 1.0, "top_p": p}] for p in (0.1, 0.5, 0.9, 0.99)),
        [{"temperature": 1.0, "min_p": 0.05}],
        [{"temperature": 0.7, "top_k": 50, "top_p": 0.9, "min_p": 0.01}],
        [{"temperature": 1.0, "top_k": k, "top_p": 0.95} for k in (1, 1_000, 8, 50)],
    ]
    instructions, elements, read = zip(*map(_costs, filters), strict=True)
    assert max(instructions) <= 1.2 * min(instructions)
    assert max(elements) <= 1.1 * min(elements)
    assert max(read) == min(read) < 1.001 * 4 * V3
    plain = _costs([{"temperature": 1.0}])
    greedy = _costs([{}])
    for row in (plain, greedy, _costs(MIXTURE[:4]), _costs([{"temperature": 1.0, "top_p": 1.0}])):
        assert row[0] <= max(instructions)
        assert row[1] <= max(elements)
        assert row[2] < 1.04 * 4 * V3  # a tile of a row without filters is read twice
    assert greedy[2] < 1.001 * 4 * V3


def test_the_way_beyond_the_kept_ones_is_bounded() -> None:
    """About 25 reads of the row per border; that of top-k first, then that of the nucleus."""
    for options, reads in (
        ({"temperature": 9.0, "top_p": 0.9}, 30),
        ({"temperature": 1.0, "top_k": 30_000}, 30),
        ({"temperature": 9.0, "top_k": 30_000, "top_p": 0.9}, 55),
    ):
        assert 2 * 4 * V3 < _costs([options])[2] < reads * 4 * V3
