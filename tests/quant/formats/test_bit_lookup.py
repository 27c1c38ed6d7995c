"""The lookup agrees with the exact search, whatever the values are."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.quant_passes.formats.bit_lookup import bit_lookup
from ascendfx.quant_passes.formats.nearest_value import (
    difference_upward,
    first_of_upper,
    half_gap,
)
from tests.quant.formats.exact_nearest import nearest_values

SINGLE = st.floats(allow_nan=False, allow_infinity=False, width=32)
DOUBLE = st.floats(-1e100, 1e100, allow_subnormal=True)
BOOK = st.lists(st.one_of(SINGLE, st.floats(-1, 1)), min_size=2, max_size=12, unique=True)


@given(values=BOOK, data=st.data())
def test_lookups_of_any_values_agree_with_the_search(
    values: list[float], data: st.DataObject
) -> None:
    book = np.unique(np.array(values) + 0.0)
    borders = first_of_upper(book, np.zeros(len(book) - 1, np.bool_))

    def exact(numbers: np.ndarray) -> np.ndarray:
        return np.searchsorted(borders, numbers, side="right").astype(np.uint8)

    near_borders = np.concatenate([borders, np.nextafter(borders, -np.inf), book])
    drawn = data.draw(st.lists(st.one_of(SINGLE, DOUBLE), max_size=20))
    numbers = np.concatenate([near_borders, np.array(drawn, np.float64)])
    with np.errstate(over="ignore"):
        single = numbers.astype(np.float32)
    lookup = bit_lookup(exact)
    np.testing.assert_array_equal(lookup.encode(numbers), exact(numbers))
    np.testing.assert_array_equal(lookup.encode(single), exact(single.astype(np.float64)))


@given(values=BOOK, number=st.one_of(SINGLE, st.floats(-2, 2)))
def test_borders_are_exact(values: list[float], number: float) -> None:
    book = np.unique(np.array(values) + 0.0)
    down = first_of_upper(book, np.zeros(len(book) - 1, np.bool_))
    up = first_of_upper(book, np.ones(len(book) - 1, np.bool_))
    near = nearest_values(number, book.tolist())
    assert book[np.searchsorted(down, number, side="right")] == min(near)
    assert book[np.searchsorted(up, number, side="right")] == max(near)
    distance = abs(number - book[np.searchsorted(up, number, side="right")])
    assert distance <= half_gap(book, np.array([number]))[0] * (1 + 2**-52)


def test_a_middle_that_is_no_float64() -> None:
    """The middle of 2^-80 and 1 lies just above one half, which therefore belongs to 2^-80."""
    book = np.array([2.0**-80, 1.0])
    border = first_of_upper(book, np.array([True]))
    assert border == np.nextafter(0.5, 1)


@given(a=DOUBLE, b=DOUBLE)
def test_differences_are_never_too_small(a: float, b: float) -> None:
    got, true = float(difference_upward(a, b)), Fraction(a) - Fraction(b)
    assert Fraction(got) >= true
    assert Fraction(float(np.nextafter(got, -np.inf))) < true


def test_chunks_are_put_together() -> None:
    def exact(numbers: np.ndarray) -> np.ndarray:
        return (numbers > 0.3).astype(np.uint8)

    numbers = np.random.default_rng(0).uniform(-1, 1, (3, 70_001)).astype(np.float32)
    np.testing.assert_array_equal(bit_lookup(exact).encode(numbers), exact(numbers))
