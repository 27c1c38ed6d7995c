"""Orders of real numbers: every case that can occur is looked at, and no other."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.passes.proof.linear_feasibility import Inequality, feasible, solution
from ascendfx.passes.proof.order_cases import Case, each_case
from ascendfx.passes.proof.real import Real, exactly

SMALL = st.integers(-2, 2)
SYSTEMS = st.lists(st.tuples(st.tuples(SMALL, SMALL), st.booleans()), min_size=1, max_size=5)


def reals(case: Case, *names: str, **assumptions: bool) -> list[Real]:
    kind = assumptions or {"real": True}
    return [Real(sympy.Symbol(name, **kind), case) for name in names]


def count(run: Any) -> int:
    return sum(1 for _ in each_case(run))


@given(SYSTEMS)
def test_a_system_is_feasible_if_a_point_of_a_fine_grid_satisfies_it(
    system: list[tuple[tuple[int, int], bool]],
) -> None:
    """Directions with coefficients up to 2 in the plane: all sectors have points on this grid."""
    rows = [
        Inequality({"x": Fraction(a), "y": Fraction(c)}, strict=strict) for (a, c), strict in system
    ]
    grid = [
        dict(zip("xy", map(Fraction, p), strict=True)) for p in product(range(-9, 10), repeat=2)
    ]
    possible = any(all(row.holds(point) for row in rows) for point in grid)
    assert feasible(rows) == possible
    if (found := solution(rows)) is not None:
        assert all(row.holds(found) for row in rows)


@pytest.mark.parametrize(("elements", "orders"), [(1, 1), (2, 3), (3, 13), (4, 75)])
def test_a_stable_sort_has_a_case_for_each_order_with_ties(elements: int, orders: int) -> None:
    """The numbers of weak orders; source: OEIS A000670."""
    names = [f"x{i}" for i in range(elements)]

    def run(case: Case) -> None:
        values = reals(case, *names)
        for a, c in product(values, repeat=2):
            _ = a < c  # every pair: so that ties are told from both orders

    assert count(run) == orders


def test_a_maximum_of_three_does_not_ask_what_follows() -> None:
    def run(case: Case) -> Any:
        return np.max(np.array(reals(case, "x", "y", "z"), object))

    assert count(run) == 4


def test_a_scale_of_known_sign_is_no_question() -> None:
    def run(case: Case) -> tuple[bool, bool]:
        (s,) = reals(case, "s", positive=True)
        x, y = reals(case, "x", "y")
        return s * x > s * y, x > y

    assert [result for _, result in each_case(run)] == [(True, True), (False, False)]


def test_an_exponential_orders_like_its_argument() -> None:
    def run(case: Case) -> tuple[bool, bool]:
        x, y = reals(case, "x", "y")
        total = x.exp() + y.exp()
        return x.exp() / total > y.exp() / total, x > y

    assert [result for _, result in each_case(run)] == [(True, True), (False, False)]


def test_a_product_asks_for_the_sign_of_each_factor() -> None:
    def run(case: Case) -> bool:
        x, y = reals(case, "x", "y")
        return x * y > 0

    results = [result for _, result in each_case(run)]
    assert results.count(True) == 2
    assert len(results) > 2


def test_a_case_knows_its_equalities() -> None:
    def run(case: Case) -> list[Any]:
        x, y = reals(case, "x", "y")
        _ = x > y, x < y
        return case.equalities()

    equal = [result for _, result in each_case(run) if result]
    assert len(equal) == 1
    assert sympy.Symbol("x", real=True) in equal[0][0].free_symbols


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.1, "1/10"),
        (1e-5, "1/100000"),
        (1 / 3, "1/3"),
        (2.0, "2"),
        (1e-20, "1/100000000000000000000"),
    ],
)
def test_a_float_is_the_simplest_fraction_that_rounds_to_it(number: float, shown: str) -> None:
    assert str(exactly(number)) == shown
