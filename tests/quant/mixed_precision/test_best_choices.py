"""No choices within the limits are better than those found: all of them are tried."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.mixed_precision import best_choices as module
from ascendfx.quant_passes.mixed_precision.best_choices import Limit, Table, best_choices, total
from ascendfx.quant_passes.mixed_precision.pareto_front import pareto_front

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5)
NUMBERS = (
    st.integers(0, 30).map(float),
    st.integers(0, 10**6).map(lambda number: number / 10**6),
    st.integers(0, 10**9).map(float),
)
"""Ties and equal costs; shares; bytes: coarser than where the solver stops, 1e-10 of the spread."""


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, Table, Table]:
    sizes = draw(SIZES)
    kinds = [draw(st.sampled_from(NUMBERS)) for _ in range(3)]
    scores, costs, more = ([[draw(kind) for _ in range(n)] for n in sizes] for kind in kinds)
    return scores, costs, more


def every(table: Table) -> list[tuple[int, ...]]:
    return list(product(*(range(len(row)) for row in table)))


@settings(max_examples=60)
@given(given_tables=tables(), parts=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_all_choices_were_tried(
    given_tables: tuple[Table, Table, Table], parts: tuple[float, float]
) -> None:
    scores, *costs = given_tables
    limits: list[Limit] = []
    for number, (table, part) in enumerate(zip(costs, parts, strict=True)):
        sums = sorted(total(table, choices) for choices in every(table))
        limits.append(Limit(str(number), table, sums[round(part * (len(sums) - 1))]))
    allowed = [each for each in every(scores) if all(limit.holds(each) for limit in limits)]
    if not allowed:
        with pytest.raises(GraphError, match="budget-too-small"):
            best_choices(scores, limits)
        return
    found = best_choices(scores, limits)
    assert found in allowed
    best = min(total(scores, each) for each in allowed)
    spread = max(max(row) - min(row) for row in scores)
    assert total(scores, found) <= best + 1e-9 * spread


def test_what_is_fixed_is_spent() -> None:
    scores, costs = [[0.0, 1.0]], [[8.0, 4.0]]
    assert best_choices(scores, [Limit("bytes", costs, 8)]) == (0,)
    assert best_choices(scores, [Limit("bytes", costs, 8, fixed=1)]) == (1,)
    with pytest.raises(GraphError, match="the least is 5") as caught:
        best_choices(scores, [Limit("bytes", costs, 4, fixed=1)])
    assert caught.value.code == "budget-too-small"


def test_a_limit_is_kept_exactly() -> None:
    # one byte of 10^12 is below the tolerance of the solver
    scores, costs = [[0.0, 1.0], [0.0, 2.0]], [[1e12 + 1, 1.0], [1e12, 1.0]]
    assert best_choices(scores, [Limit("bytes", costs, 1e12 + 1)]) == (1, 0)
    assert best_choices(scores, [Limit("bytes", costs, 1e12 + 2)]) in {(0, 1), (1, 0)}
    assert best_choices(scores, [Limit("bytes", costs, 2e12)]) == (1, 0)
    assert best_choices(scores, [Limit("bytes", costs, 2e12 + 1)]) == (0, 0)


def test_many_units_are_chosen_for() -> None:
    # the front of `a` or `b` per unit is known: the best ratio first
    count = 400
    scores = [[0.0, float(1 + unit % 7)] for unit in range(count)]
    costs = [[2.0, 1.0]] * count
    found = best_choices(scores, [Limit("bytes", costs, count + 100)])
    cheapest = sorted(float(1 + unit % 7) for unit in range(count))[: count - 100]
    assert total(scores, found) == sum(cheapest)


@settings(max_examples=30)
@given(given_tables=tables())
def test_no_choices_are_better_than_a_point_of_the_front(
    given_tables: tuple[Table, Table, Table],
) -> None:
    scores, costs, _ = given_tables
    known = [(total(costs, each), total(scores, each)) for each in every(scores)]
    spread = 1e-9 * max(max(row) - min(row) for row in scores)
    front = pareto_front(scores, costs, points=4)
    assert front[0].cost == min(cost for cost, _ in known)
    assert front[-1].score <= min(score for _, score in known) + spread
    for before, after in pairwise(front):
        assert before.cost < after.cost
        assert before.score > after.score
    for point in front:
        assert not any(cost <= point.cost and score < point.score - spread for cost, score in known)
        assert not any(cost < point.cost and score <= point.score for cost, score in known)


def test_of_equal_scores_the_front_has_the_cheapest() -> None:
    scores, costs = [[0.0, 0.0]] * 4 + [[1.0, 0.0]], [[2.0, 1.0], [1.0, 2.0]] * 2 + [[1.0, 5.0]]
    found = [(each.cost, each.score) for each in pareto_front(scores, costs, points=9)]
    assert found == [(5.0, 1.0), (9.0, 0.0)]


@pytest.mark.parametrize(
    ("scores", "costs", "words"),
    [
        ([[0.0, float("nan")]], [[1.0, 2.0]], "unit 0 are 0, nan"),
        ([[0.0, 1.0]], [[1.0]], "not of the choices"),
        ([[]], [[]], "not of the choices"),
    ],
)
def test_numbers_that_are_none_are_told(scores: Table, costs: Table, words: str) -> None:
    with pytest.raises(GraphError, match="bad-scores") as caught:
        best_choices(scores, [Limit("bytes", costs, 5)])
    assert words in str(caught.value)


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", missing)
    with pytest.raises(GraphError, match="missing-package") as caught:
        best_choices([[0.0]], [])
    assert caught.value.hint == "pip install 'ascendfx[quantize]'"
