"""Tokens of the kernel that are coupled with drafts are those of the reference."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.sample_tokens import plan_sample_tokens
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import Option, State, Verification
from ascendfx.ir.tensor_type import DType
from tests.kernels.sampling_case import Rows, check, costs, sample, sampling_kernel
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, build, run, sizes

V3 = 129_280
PLACES = 12

SHAPES = [
    (3, 1, DType.F32),
    (40, 2, DType.BF16),
    (200, 3, DType.F32),
    (1_300, 1, DType.F32),
    (9_001, 2, DType.F32),
    (4_097, 3, DType.BF16),
]

FILTERS: list[dict[str, float]] = [
    {},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 20},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 1.3, "min_p": 0.05},
    {"temperature": 0.6, "top_k": 50, "top_p": 0.95, "min_p": 0.01},
    {"temperature": 3.0, "top_p": 0.98},
]

REQUESTS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.1, 0.5, 1.0, 4.0]),
        "top_k": st.sampled_from([0, 0, 1, 2, 8, 50, 1_000, 1_200]),
        "top_p": st.sampled_from([0.0, 1e-7, 0.5, 0.9, 0.999, 1.0]),
        "min_p": st.sampled_from([0.0, 0.0, 1e-6, 0.05, 0.5]),
        "repetition": st.sampled_from([0.0, 1.0, 0.8, 1.3]),
        "presence": st.sampled_from([0.0, 0.0, 0.7, -0.2]),
        "frequency": st.sampled_from([0.0, 0.0, 0.3, -0.1]),
        "verification": st.sampled_from(list(Verification)),
        "threshold": st.sampled_from([0.0, 0.05, 0.3, 1.0]),
        "scale": st.sampled_from([0.1, 0.6, 2.0]),
        "ranks": st.sampled_from([0, 1, 2, 10, 1_024, 5_000]),
    }
)


def _logits(rows: int, columns: int, dtype: DType, seed: int = 0, spread: float = 2.0) -> Array:
    random = np.random.default_rng(seed)
    return (random.standard_normal((rows, columns)) * spread).astype(dtype.numpy)


def _spoil(rows: Rows, seed: int) -> None:
    """Give some rows no numbers to choose by, some places fewer drafts, and early stop tokens."""
    random = np.random.default_rng(seed)
    count, columns = rows.logits.shape
    for row in random.permutation(count)[: count // 6]:
        kind = random.integers(0, 5)
        place = random.integers(0, columns)
        if kind < 2:
            rows.logits[row, place] = (np.nan, np.inf)[kind]
        elif kind == 2:
            rows.logits[row] = -np.inf
        elif kind == 3:
            rows.logits[row] = 0
        else:
            rows.logits[row, random.permutation(columns)[: columns // 2]] = -np.inf
    rows.state[:, State.DRAFTED] = rows.drafts - (random.random(len(rows.options)) < 0.3)
    rows.state[:, State.GENERATED] = 2
    rows.state[:, State.MINIMUM] = random.integers(0, 6, len(rows.options))
    rows.stop_ids[:, :2] = random.integers(-1, columns, (len(rows.options), 2))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SHAPES),
    st.integers(0, 2**31 - 1),
    st.sampled_from([0.2, 1.0, 3.0]),
    st.booleans(),
    st.lists(REQUESTS, min_size=1, max_size=8),
)
def test_any_batch(
    shape: tuple[int, int, DType],
    seed: int,
    spread: float,
    spoiled: bool,  # noqa: FBT001
    options: list[dict[str, float]],
) -> None:
    columns, drafts, dtype = shape
    logits = _logits(PLACES * (drafts + 1), columns, dtype, seed, spread)
    rows = Rows.of(logits, options, seed, drafts)
    rows.count_texts(seed)
    rows.draw_drafts(seed)
    if spoiled:
        _spoil(rows, seed)
    check(rows, dtype, TARGET if seed % 2 else FEW_CORES)


@pytest.mark.parametrize("verification", Verification)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_verification_with_every_filter(
    shape: tuple[int, int, DType], verification: Verification
) -> None:
    columns, drafts, dtype = shape
    verifying = {"verification": verification, "threshold": 0.3, "scale": 0.6, "ranks": 5}
    options = [{**each, **verifying} for each in FILTERS]
    rows = Rows.of(_logits(70 * (drafts + 1), columns, dtype, 1), options, 3, drafts)
    rows.draw_drafts(columns)
    assert check(rows, dtype) > 0.85
    assert (sample(rows, dtype) == sample(rows, dtype, FEW_CORES)).all()


def test_a_step_without_rows_chooses_nothing() -> None:
    rows = Rows.of(_logits(6, 40, DType.F32), FILTERS[:1], 3, 1)
    kernel = sampling_kernel(40, DType.F32, 6, 3, drafts=1)
    assert (run(build(kernel), rows.inputs, 0)["tokens"] == -1).all()


@pytest.mark.parametrize("target", [TARGET, FEW_CORES], ids=["all cores", "two cores"])
@pytest.mark.parametrize(("places", "drafts"), [(70, 3), (9, 2), (33, 1), (1, 3)])
def test_packed_rows_have_the_tokens_that_they_have_among_placeholders(
    places: int, drafts: int, target: Target
) -> None:
    ways = ({"verification": each, "threshold": 0.3, "scale": 0.6} for each in Verification)
    options = [{**each, **way} for way in ways for each in FILTERS[:4]]
    rows = Rows.of(_logits(places * (drafts + 1), 200, DType.F32, 1), options, 3, drafts)
    rows.draw_drafts(5)
    random = np.random.default_rng(places)
    rows.state[:, State.DRAFTED] = random.integers(0, drafts + 1, places)
    kept = np.tile(np.arange(drafts + 1), places) <= rows.state[rows.row_request, State.DRAFTED]
    found, among = sample(rows.packed(), DType.F32, target), sample(rows, DType.F32, target)
    np.testing.assert_array_equal(found, among[kept])


@pytest.mark.parametrize("verification", Verification)
def test_the_vocabulary_of_deepseek_v3(verification: Verification) -> None:
    verifying = {"verification": verification, "threshold": 0.3, "scale": 0.6, "ranks": 5}
    options = [{**each, **verifying} for each in FILTERS[:6]]
    rows = Rows.of(_logits(12, V3, DType.BF16), options, 3, 1)
    rows.draw_drafts(1)
    assert check(rows, DType.BF16) > 0.5


EXACT_FILTERS: list[dict[str, float]] = [
    {"temperature": 1.0},
    {"temperature": 0.5, "top_k": 16},
    {"temperature": 1.0, "top_k": 1_024},
    {"temperature": 1.0, "top_k": 2_048},
]


@pytest.mark.parametrize("verification", Verification)
@pytest.mark.parametrize("columns", [64, 4_096])
def test_equal_logits(columns: int, verification: Verification) -> None:
    """Weights are 1, sums exact, and all shares powers of two: no rounding excuses a token.

    What is recorded lies around the end of the prefix, where ids decide.
    """
    places, drafts = 64, 2
    options = [
        {**each, "verification": verification, "threshold": 2.0**-5, "scale": 0.5, "ranks": 16}
        for each in EXACT_FILTERS
    ]
    logits = np.full((places * (drafts + 1), columns), -1.5, np.float32)
    rows = Rows.of(logits, options, 5, drafts)
    random = np.random.default_rng(columns)
    for place in range(places):
        end = int(options[place % 4].get("top_k", columns // 2)) % columns
        for i in range(drafts):
            count = 2 ** int(random.integers(0, 6))
            near = np.arange(end - 16, end + 16) % columns
            ids = random.permutation(near)[:count]
            rows.draft_ids[place, i, :count] = ids
            rows.draft_probs[place, i, :count] = 1 / count
            rows.token_ids[place * (drafts + 1) + i + 1] = ids[0]
    tokens = sample(rows)
    np.testing.assert_array_equal(tokens, rows.expected())
    np.testing.assert_array_equal(tokens, sample(rows, target=FEW_CORES))


ZERO = 3_490_574
"""With the seed 12, the number of stream SAMPLE for the token behind this position is 0."""
ACCEPTING, ACCEPTING_STEP = 888_911, 5
"""With that seed, the number of stream ACCEPT at this position is 0 in the step of this LENGTH."""


@pytest.mark.parametrize("verification", [Verification.REJECTION, Verification.BLOCK])
def test_a_random_number_of_zero(verification: Verification) -> None:
    """It takes every draft that may come, none that may not, and the first token that is left."""
    logits = np.tile(np.array([-1.0, 3.0, -np.inf, 2.0, 2.5], np.float32), (16, 1))
    both: list[dict[str, float]] = [{"temperature": 1.0}, {"temperature": 1.0, "top_k": 2}]
    rows = Rows.of(logits, [{**each, "verification": verification} for each in both], 12, 1)
    rows.state[:, State.SEED_HIGH] = 0
    rows.token_ids[1::2] = [0, 0, 1, 1, 2, 2, 3, 3]
    accepting = deepcopy(rows)
    accepting.state[:, State.LENGTH] = ACCEPTING_STEP
    accepting.positions[:] = np.tile([ACCEPTING - 1, ACCEPTING], 8)
    assert (accepting.place(0).accepted[1:] == 0).all()
    taken = sample(accepting)
    np.testing.assert_array_equal(taken, accepting.expected())
    drafts = rows.token_ids[1::2]
    may_come = np.array([True, False, True, True, False, False, True, False])
    np.testing.assert_array_equal(taken[::2][may_come], drafts[may_come])
    assert (taken[::2][~may_come] != drafts[~may_come]).all()
    rows.positions[:] = np.tile([ZERO, ZERO + 1], 8)
    assert (rows.drawn()[::2] == 0).all()
    np.testing.assert_array_equal(sample(rows), rows.expected())


def test_what_is_recorded_is_nearly_everything() -> None:
    """The others weigh next to nothing: what is drawn of them has a weight and is not recorded."""
    columns, places = 5_000, 64
    logits = _logits(places * 2, columns, DType.F32, 3, 0.5)
    for row, each in enumerate(logits):
        each[row * 7 : row * 7 + 32] += 30
    likely = logits.copy()
    rows = Rows.of(logits, [{"temperature": 1.0, "verification": 1}], 9, 1)
    for place in range(places):
        ids = np.argsort(-likely[2 * place], kind="stable")[:32]
        weights = np.exp(likely[2 * place, ids].astype(np.float64))
        rows.draft_ids[place, 0] = ids
        rows.draft_probs[place, 0] = weights / weights.sum()
        rows.token_ids[2 * place + 1] = ids[place % 32]
        if place % 2:  # the tokens that are left are the others
            rows.draft_probs[place, 0] *= 1.001
            rows.draft_probs[place, 0, place % 32] = 1e6
    tokens = sample(rows)[::2]
    check(rows)
    for place in range(1, places, 2):
        drafted = tokens[place] == rows.token_ids[2 * place + 1]
        assert drafted or tokens[place] not in rows.draft_ids[place, 0].tolist()


def test_requests_that_are_exact_look_at_no_draft_and_no_count() -> None:
    """Their tables may hold anything, and their place of counts need not exist."""
    rows = Rows.of(_logits(80, 300, DType.F32), FILTERS, 3, 1)
    alone = Rows.of(rows.logits, [{}], 3)
    alone.options, alone.state, alone.row_request = rows.options, rows.state, rows.row_request
    alone.stop_ids, alone.positions = rows.stop_ids, rows.positions
    rows.draw_drafts(1)
    rows.state[:, State.PLACE] = 2**30
    np.testing.assert_array_equal(sample(rows), sample(alone))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 16, 40])
@pytest.mark.parametrize("verification", [Verification.REJECTION, Verification.BLOCK])
def test_any_split_over_cores_gives_the_same_tokens(count: int, verification: Verification) -> None:
    drafts = 3
    options: list[dict[str, float]] = [{"temperature": 1.0, "verification": verification}]
    rows = Rows.of(_logits(40 * (drafts + 1), 40, DType.F32), options, 3, drafts)
    rows.draw_drafts(2)
    kernel = sampling_kernel(40, DType.F32, 160, 40, drafts=drafts)
    tokens = [rows.inputs[a.name].reshape(-1) for a in kernel.arguments if a.name in rows.inputs]
    found = np.full(160, -1, np.int32)
    build(kernel).launch([*tokens, found, sizes(rows=count * (drafts + 1))])
    whole = sample(rows)
    np.testing.assert_array_equal(found[: count * 4], whole[: count * 4])
    assert (found[count * 4 :] == -1).all()


ONE_CORE = replace(TARGET, vector_cores=1)


@pytest.mark.parametrize("verification", Verification)
def test_logits_are_read_once(verification: Verification) -> None:
    """A row without filters reads a tile twice; tables of recorded tokens take two copies.

    A core has whole places here: one that has a part of a block reads all of it.
    """
    verifying = {"verification": verification, "threshold": 0.3, "scale": 0.6, "ranks": 5}
    random = np.random.default_rng(0)
    logits = (random.standard_normal((6, V3)) * 6).astype(np.float32)
    exact = {}
    for name, filters, reads in (
        ("greedy", {}, 1.002),
        ("plain", {"temperature": 1.0}, 1.04),
        ("nucleus", {"temperature": 1.0, "top_p": 0.95}, 1.002),
    ):
        rows = Rows.of(logits, [filters], 3, 2)
        rows.draw_drafts(1)
        exact[name] = costs(rows, target=ONE_CORE)
        rows.options[:, [Option[each.upper()] for each in verifying]] = list(verifying.values())
        cost = costs(rows, target=ONE_CORE)
        assert cost.bytes_read < reads * 4 * V3
        assert cost.copies <= exact[name].copies + 2
        # What is more: moments, kept candidates, sums of tiles without what is recorded.
        most = {Verification.TYPICAL: 3, Verification.RELAXED: 4}.get(verification, 1)
        assert cost.elements < exact[name].elements + most * V3


@pytest.mark.parametrize("drafts", [0, 2])
def test_counts_are_read_with_the_logits(drafts: int) -> None:
    """Once, and only of requests with penalties; no more than ten elements are computed."""
    logits = _logits(6, V3, DType.F32)
    rows = Rows.of(logits, [{"temperature": 1.0, "top_k": 50}], 3, drafts)
    rows.count_texts(1, 3_000)
    plain = costs(rows, target=ONE_CORE)
    assert plain.bytes_read < 1.002 * 4 * V3
    for penalties, most in (
        ({"repetition": 1.1}, 5),
        ({"frequency": 0.1}, 3),
        ({"presence": 0.1}, 4),
        ({"repetition": 1.1, "presence": 0.1, "frequency": 0.1}, 10),
    ):
        columns = [Option[name.upper()] for name in penalties]
        rows.options[:, columns] = list(penalties.values())
        cost = costs(rows, target=ONE_CORE)
        rows.options[:, columns] = 0
        assert cost.bytes_read - plain.bytes_read == pytest.approx(4 * V3, rel=1e-9)
        assert cost.elements < plain.elements + (most + 0.6) * V3


def test_fewer_tokens_are_recorded() -> None:
    options = [{**each, "verification": Verification.REJECTION} for each in FILTERS]
    rows = Rows.of(_logits(160, 40, DType.F32), options, 3, 1)
    rows.draw_drafts(5)
    rows.draft_ids = rows.draft_ids[:, :, :5].copy()
    rows.draft_probs = rows.draft_probs[:, :, :5].copy()
    assert check(rows) > 0.9
    with pytest.raises(GraphError, match="drafts are drawn from 33 tokens, at most 32"):
        _plan(drafts=1, recorded=33)


@settings(max_examples=60)
@given(
    columns=st.integers(1, 300_000),
    capacity=st.integers(1, 900),
    drafts=st.integers(0, 7),
    dtype=st.sampled_from([DType.F32, DType.BF16]),
)
def test_every_plan_fits_local_memory(
    columns: int, capacity: int, drafts: int, dtype: DType
) -> None:
    plan = plan_sample_tokens(
        rows=DeviceSize(0, capacity * (drafts + 1)), requests=capacity, places=capacity,
        columns=columns, dtype=dtype, target=TARGET, drafts=drafts,
    )  # fmt: skip
    assert local_bytes(plan.local) <= TARGET.unified_buffer


def _plan(*, drafts: int, recorded: int) -> object:
    return plan_sample_tokens(
        rows=DeviceSize(0, 8), requests=4, places=4, columns=64, dtype=DType.F32, target=TARGET,
        drafts=drafts, recorded=recorded,
    )  # fmt: skip
