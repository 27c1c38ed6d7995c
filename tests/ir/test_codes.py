"""The nearest integer, exact products of codes, and scales of groups."""

import numpy as np
import pytest
import sympy

from ascendfx.ir.code_pairs import unpack_pairs
from ascendfx.ir.ops import (
    GatherRows,
    GroupedLinear,
    Linear,
    PackCodes,
    Round,
    RowGroups,
    SplitCodes,
)
from ascendfx.ir.ops.split_codes import LARGEST_SPLIT
from ascendfx.ir.projection import LONGEST_OF_CODES

TIES = [-2.5, -1.5, -0.5, -0.4, 0.5, 1.5, 2.5, 2.6, 2.0**40 + 2.0**20]


def test_ties_go_to_the_even_number() -> None:
    (nearest,) = Round().reference(np.array(TIES))
    assert nearest.tolist() == [-2, -2, 0, 0, 0, 2, 2, 3, 2.0**40 + 2.0**20]


def test_numbers_in_an_object_array_are_rounded_as_in_a_float_array() -> None:
    numbers = np.array([np.float32(each) for each in TIES], object)
    assert [float(x) for x in Round().reference(numbers)[0]] == [round(each) for each in TIES]
    assert Round().reference(np.zeros((0, 2), object))[0].shape == (0, 2)


def test_expressions_are_rounded_once_they_are_numbers() -> None:
    x, n = sympy.Symbol("x"), sympy.Symbol("n", integer=True)
    (nearest,) = Round().reference(np.array([x, n, sympy.Rational(5, 2)], object))
    assert nearest[1:].tolist() == [n, 2]
    halves = [nearest[0].subs(x, sympy.Rational(k, 2)) for k in range(-5, 6)]
    assert halves == [round(k / 2) for k in range(-5, 6)]


@pytest.mark.parametrize("largest", [127, 2**40])
def test_products_of_integers_are_exact(largest: int) -> None:
    """Beyond 2^53 float64 is no help, and int64 sums are taken."""
    random = np.random.default_rng(3)
    x, w = (random.integers(-largest, largest, (n, 64)) for n in (5, 6))
    w[0] = 3
    x %= 2**20
    expected = [[sum(int(a) * int(c) for a, c in zip(r, v, strict=True)) for v in w] for r in x]
    assert Linear().reference(x, w)[0].tolist() == expected
    (grouped,) = GroupedLinear().reference(x, np.stack([w, w]), np.array([2, 4]))
    assert grouped.tolist() == [*expected[:4], [0] * 6]


def test_the_longest_sum_of_codes_fits_int32_and_a_longer_one_does_not() -> None:
    assert LONGEST_OF_CODES * 128**2 < 2**31 <= (LONGEST_OF_CODES + 1) * 128**2


def test_rows_find_their_group() -> None:
    ends = np.array([0, 2, 2, 5, 5])
    (groups,) = RowGroups(7).reference(ends)
    assert groups.tolist() == [1, 1, 3, 3, 3, 4, 4]
    random = np.random.default_rng(0)
    x, w = random.standard_normal((5, 3)), random.standard_normal((5, 4, 3))
    scale = 2.0 ** ends[:, None]
    (y,) = GroupedLinear().reference(x, w, ends)
    (scaled,) = GroupedLinear().reference(x, w * scale[..., None], ends)
    np.testing.assert_array_equal(y * GatherRows().reference(scale, groups[:5])[0], scaled)


def test_split_codes_are_digits_of_four_bits() -> None:
    codes = np.arange(-136, 120, dtype=np.float64)
    (pairs,) = SplitCodes().reference(codes)
    digits = unpack_pairs(pairs)
    assert pairs.shape == (2, 128)
    assert (digits.min(), digits.max()) == (-8, 7)
    np.testing.assert_array_equal(16 * digits[0] + digits[1], codes)
    assert codes.max() == LARGEST_SPLIT


def test_a_product_of_digits_is_that_of_the_codes() -> None:
    """Of ordinary rows and of rows of groups: ``16 high + low``, with f32 sums exact, too."""
    random = np.random.default_rng(1)
    x = random.integers(-119, 120, (7, 30)).astype(np.float64)
    w = random.integers(-8, 8, (3, 5, 30)).astype(np.float64)
    (digits,), (pairs,) = SplitCodes().reference(x), PackCodes().reference(w)
    (y,) = Linear(pairs=True).reference(digits, pairs[1])
    assert y.shape == (7, 2, 5)
    np.testing.assert_array_equal(16 * y[:, 0] + y[:, 1], x @ w[1].T)
    ends = np.array([2, 2, 6])
    (y,) = GroupedLinear(pairs=True).reference(digits, pairs, ends)
    (wanted,) = GroupedLinear().reference(x, w, ends)
    np.testing.assert_array_equal(16 * y[:, 0] + y[:, 1], wanted)


def test_f32_holds_the_longest_sum_of_digits() -> None:
    """So that ``16 high + low`` in f32 is rounded once, as the sum in i32 would be."""
    assert 2 * LONGEST_OF_CODES * 8 * 8 < 2**24
