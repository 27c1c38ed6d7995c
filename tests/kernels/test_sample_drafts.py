"""Drafts of the kernel are those of the reference, up to what `sampling_bounds` derives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.sample_drafts import plan_sample_drafts
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import DRAFT_CANDIDATES, State
from ascendfx.ir.tensor_type import DType
from tests.chi_square import chi_square_p
from tests.golden_file import Golden
from tests.kernels.columns_and_formats import columns_and_formats
from tests.kernels.drafting_case import Places, check, draft, drafting_kernel
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, build, sizes

V3 = 129_280

MIXTURE: list[dict[str, float]] = [
    {},
    {"temperature": 1.0},
    {"temperature": 1.0, "verification": 1},
    {"temperature": 0.7, "top_k": 20, "verification": 2},
    {"temperature": 1.0, "top_p": 0.9, "verification": 1},
    {"temperature": 1.3, "min_p": 0.05, "verification": 2},
    {"temperature": 0.6, "top_k": 50, "top_p": 0.95, "min_p": 0.01, "verification": 1},
    {"temperature": 1.0, "top_k": 1, "verification": 2},
    {"temperature": 2.0, "top_p": 1e-6, "verification": 1},
    {"temperature": 0.0, "top_k": 3, "verification": 1},
    {"temperature": 1.0, "verification": 3, "threshold": 0.3},
    {"temperature": 1.0, "verification": 4, "ranks": 3},
]


def _logits(places: int, columns: int, dtype: DType, seed: int = 0, spread: float = 2.0) -> Array:
    random = np.random.default_rng(seed)
    return (random.standard_normal((places, columns)) * spread).astype(dtype.numpy)


@pytest.mark.parametrize(
    ("columns", "dtype"),
    columns_and_formats([1, 2, 7, 31, 32, 33, 64, 65, 1_025, 4_097, 9_001]),
)
def test_mixtures_of_places(columns: int, dtype: DType) -> None:
    places = Places.of(_logits(60, columns, dtype, columns), MIXTURE, drafts=3, depth=1)
    assert check(places, dtype) > 0.9
    check(places, dtype, FEW_CORES)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([3, 40, 200, 1_300]),
    st.integers(0, 2**31 - 1),
    st.sampled_from([0.0, 0.2, 1.0, 3.0]),
    st.integers(1, 4).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k - 1))),
    st.lists(
        st.fixed_dictionaries(
            {
                "temperature": st.sampled_from([0.0, 0.1, 0.5, 1.0, 4.0]),
                "top_k": st.sampled_from([0, 1, 2, 8, 31, 33, 50, 1_000, 1_030, 1_200, 5_000]),
                "top_p": st.sampled_from([0.0, 1e-7, 0.1, 0.5, 0.9, 0.999, 1.0]),
                "min_p": st.sampled_from([0.0, 1e-6, 0.05, 0.5, 1.0]),
                "verification": st.sampled_from([1, 2, 1, 2, 0, 3, 4]),
            }
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_any_options(
    columns: int,
    seed: int,
    spread: float,
    depth: tuple[int, int],
    options: list[dict[str, float]],
) -> None:
    logits = _logits(12, columns, DType.F32, seed % 5, spread)
    check(Places.of(logits, options, seed, *depth))


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_the_vocabulary_of_deepseek_v3(dtype: DType) -> None:
    assert check(Places.of(_logits(12, V3, dtype, spread=4.0), MIXTURE), dtype) > 0.8


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.0, "top_k": 3_000},
        {"temperature": 0.3, "top_k": 4_000, "top_p": 0.5},
        {"temperature": 0.2, "top_k": 1_025, "top_p": 0.3},
        {"temperature": 0.2, "top_k": 700, "top_p": 0.5},
        {"temperature": 3.0, "min_p": 0.02},
        {"temperature": 1.5, "top_p": 0.97},
    ],
)
def test_filters_that_leave_more_than_what_is_kept(options: dict[str, float], dtype: DType) -> None:
    wishes = [{**options, "verification": kind} for kind in (1, 2)]
    places = Places.of(_logits(24, 9_000, dtype, 3, spread=1.0), wishes)
    assert check(places, dtype) > 0.8


@pytest.mark.parametrize("columns", [5, 40, 1_500])
def test_equal_logits(columns: int) -> None:
    """Weights are 1 and sums exact: ids decide, exactly."""
    options: list[dict[str, float]] = [
        {"temperature": 1.0},
        {"temperature": 1.0, "top_k": 3},
        {"temperature": 0.5, "top_p": 0.5},
        {"temperature": 0.5, "top_k": 16, "top_p": 0.75},
        {"temperature": 1.0, "min_p": 1.0},
    ]
    wishes: list[dict[str, float]] = [{**each, "verification": 1.0} for each in options]
    places = Places.of(np.full((64, columns), 0.5, np.float32), wishes)
    tokens, ids, shares = draft(places)
    expected, wanted_ids, wanted_shares = places.expected()
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_array_equal(ids, wanted_ids)
    np.testing.assert_allclose(shares, wanted_shares, rtol=1e-6)


def test_places_without_numbers_keep_nothing() -> None:
    for columns in (3, 100, 4_500):
        logits = np.zeros((10, columns), np.float32)
        for row, value in enumerate((np.nan, np.inf)):
            for turn, place in enumerate((0, columns // 2, columns - 1)):
                logits[2 * turn + row] = np.linspace(-1, 1, columns)
                logits[2 * turn + row, place] = value
        logits[6] = -np.inf
        logits[8, -1] = -1e-30  # not all zeros
        for option in MIXTURE:
            places = Places.of(logits, [option])
            tokens, ids, shares = draft(places)
            expected, wanted_ids, _ = places.expected()
            nothing = (wanted_ids[:, 0, 0] < 0).nonzero()[0].tolist()
            assert nothing == [0, 1, 2, 3, 4, 5, 6, 7, 9]
            assert (expected[nothing] == tokens[nothing]).all()
            assert not tokens[nothing].any()
            assert (ids[nothing] == -1).all()
            assert not shares[nothing].any()
            assert ids[8, 0, 0] >= 0


@pytest.mark.parametrize("depth", [0, 1])
def test_stop_tokens_are_not_drafted_before_the_minimum(depth: int) -> None:
    columns = 5_000
    places = Places.of(_logits(48, columns, DType.F32), MIXTURE, drafts=2, depth=depth)
    places.stop_ids[:] = np.argsort(-places.logits.astype(np.float64), axis=1)[:, :8]
    places.stop_ids[::3, 2:] = -1
    places.state[:, State.GENERATED] = 2
    places.state[:, State.MINIMUM] = 4 + np.arange(48) % 4
    tokens, ids, shares = draft(places)
    expected, wanted_ids, wanted_shares = places.expected()
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_array_equal(ids, wanted_ids)
    np.testing.assert_allclose(shares, wanted_shares, rtol=1e-4, atol=1e-7)
    banned = 2 + places.accepted + 1 + depth < places.state[:, State.MINIMUM]
    assert banned.any()
    assert not banned.all()
    for place in np.flatnonzero(banned):
        assert tokens[place] not in places.stop_ids[place]
        assert not np.isin(
            ids[place, depth], places.stop_ids[place][places.stop_ids[place] >= 0]
        ).any()


def test_all_that_is_left_is_banned() -> None:
    logits = np.array([[1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [-np.inf, 2.0]], np.float32)
    for option in MIXTURE:
        places = Places.of(logits, [option])
        places.stop_ids[:, :2] = [[0, 1], [0, -1], [0, -1], [1, -1]]
        places.state[:, State.MINIMUM] = 99
        tokens, ids, shares = draft(places)
        assert places.expected()[0].tolist() == tokens.tolist() == [0, 0, 0, 0]
        assert (ids == -1).all()
        assert not shares.any()


def test_a_random_number_of_zero_takes_the_first_token_that_is_left() -> None:
    logits = np.array([[-np.inf, -np.inf, -1.0, 3.0, 2.0]] * 3, np.float32)
    options: list[dict[str, float]] = [
        {"temperature": 1.0, "verification": 1},
        {"temperature": 1.0, "top_k": 2, "verification": 2},
        {"temperature": 1.0, "top_p": 0.5, "verification": 1},
    ]
    places = Places.of(logits, options)
    places.state[:, [State.SEED_LOW, State.SEED_HIGH, State.LENGTH]] = 12, 0, 28_628_551
    places.accepted[:] = 0
    assert (places.drawn() == 0).all()
    tokens, ids, _ = draft(places)
    assert tokens.tolist() == places.expected()[0].tolist() == [2, 3, 3]
    assert ids[:, 0, :4].tolist() == [[3, 4, 2, -1], [3, 4, -1, -1], [3, -1, -1, -1]]


@pytest.mark.parametrize("name", ["plain", "top_k", "top_p"])
def test_drafts_have_the_distribution_that_is_kept(name: str) -> None:
    """Seeds, lengths and what was accepted differ; Pearson's test on 10,000 drafts."""
    options: dict[str, dict[str, float]] = {
        "plain": {"temperature": 1.0},
        "top_k": {"temperature": 0.7, "top_k": 20},
        "top_p": {"temperature": 1.0, "top_p": 0.9},
    }
    row = (np.random.default_rng(2).standard_normal(61) * 1.5).astype(np.float32)
    row[[7, 9, 50]] = row[3]
    wish = {**options[name], "verification": 1.0}
    places = Places.of(np.tile(row, (10_000, 1)), [wish], drafts=2, depth=1)
    tokens, ids, shares = draft(places)
    weights = np.zeros(row.size)
    known = ids[0, 1] >= 0
    weights[ids[0, 1, known]] = shares[0, 1, known]
    assert (ids == ids[0]).all()
    assert chi_square_p(np.bincount(tokens, minlength=row.size), weights) > 1e-3


@settings(max_examples=60)
@given(columns=st.integers(1, 300_000), capacity=st.integers(1, 5_000))
def test_every_plan_fits_local_memory(columns: int, capacity: int) -> None:
    for dtype in (DType.F32, DType.BF16):
        plan = plan_sample_drafts(
            requests=DeviceSize(0, capacity),
            drafts=1,
            depth=0,
            columns=columns,
            dtype=dtype,
            target=TARGET,
        )
        assert local_bytes((*plan.tables, *plan.buffers)) <= TARGET.unified_buffer


def test_ids_beyond_what_float_holds_are_refused() -> None:
    with pytest.raises(GraphError, match="16,777,217 tokens, at most 16,777,216"):
        drafting_kernel(2**24 + 1, DType.F32, 1)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_golden(golden: Golden, dtype: DType) -> None:
    kernel = drafting_kernel(V3, dtype, 32, drafts=2, depth=1)
    golden.check(f"ascendc/sample_drafts_{dtype.value}.cpp", kernel.source)


def test_logits_are_read_once() -> None:
    """Also a nucleus of any row without top-k."""
    count = 4
    for option in MIXTURE:
        places = Places.of(_logits(count, V3, DType.F32, spread=6.0), [option])
        built = build(drafting_kernel(V3, DType.F32, count))
        tensors = [each.reshape(-1) for each in places.inputs.values()]
        record = built.launch([*tensors, np.full(count, -1, np.int32), sizes(rows=count)])
        assert record.bytes["MTE2"] < 1.001 * count * 4 * V3
        assert record.bytes["MTE3"] == count * (8 * DRAFT_CANDIDATES) + 4 * count
