"""Codebooks of a tensor, of rows and of vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.codebook import Codebook, RowCodebooks
from ascendfx.quant_passes.formats.normal_float4 import FP4, NF4
from ascendfx.quant_passes.formats.vector_codebook import VectorCodebook
from tests.quant.formats.exact_nearest import nearest_values

SINGLE = st.floats(-(2.0**99), 2.0**99, width=32)


@given(values=st.lists(SINGLE, min_size=1, max_size=20), number=SINGLE)
def test_the_nearest_value_in_any_order(values: list[float], number: float) -> None:
    form = Codebook(tuple(values))
    code = form.encode(np.array(number, np.float32))
    assert float(form.decode(code)) == min(nearest_values(number, values))
    assert int(code) == [v + 0.0 for v in values].index(float(form.decode(code)) + 0.0)


def test_nf4_and_fp4_of_bitsandbytes() -> None:
    assert NF4.values[7] == 0
    assert (NF4.bits, NF4.largest, FP4.largest) == (4, 1, 1)
    assert np.array_equal(np.sort(NF4.values), NF4.values)
    numbers = np.array([1 / 6, -0.0, -1.0, 0.6])
    assert FP4.encode(numbers).tolist() == [6, 0, 11, 2]


def test_two_equal_books_are_one() -> None:
    assert Codebook((0.0, 1.0)) == Codebook((0, 1))
    assert hash(Codebook((0.0, 1.0))) == hash(Codebook((0, 1)))
    assert Codebook((0.0, 1.0)).name == "codebook2"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((), "a codebook of 0 values cannot be coded in a byte"),
        (tuple(range(257)), "a codebook of 257 values cannot be coded in a byte"),
        ((0.0, float("nan")), "a value that is not finite"),
        ((0.0, float("inf")), "a value that is not finite"),
    ],
)
def test_books_that_do_not_exist(values: tuple[float, ...], says: str) -> None:
    with pytest.raises(GraphError, match=says) as refused:
        Codebook(values)
    assert refused.value.code == "bad-format"


@pytest.mark.parametrize("count", [1, 2, 16, 40, 256])
def test_rows_have_books_of_their_own(count: int) -> None:
    random = np.random.default_rng(1)
    books = np.sort(random.standard_normal((3, 5, count)), axis=-1)
    numbers = random.standard_normal((3, 5, 64)).astype(np.float32)
    form = RowCodebooks(books)
    codes = form.encode(numbers)
    for row in np.ndindex(3, 5):
        single = Codebook(tuple(books[row]))
        np.testing.assert_array_equal(codes[row], single.encode(numbers[row]))
        np.testing.assert_array_equal(form.decode(codes)[row], single.decode(codes[row]))
    assert form == RowCodebooks(books)
    assert form != RowCodebooks(books + 1)
    assert hash(form) == hash(RowCodebooks(books))


@pytest.mark.parametrize("more", [0, 50])
def test_ties_in_rows_go_to_the_lower_value(more: int) -> None:
    form = RowCodebooks(np.array([[0.0, 1.0, *range(9, 9 + more)]]))
    assert form.encode(np.array([[0.5, np.nextafter(0.5, 1)]])).tolist() == [[0, 1]]


def test_rows_of_other_shapes_are_refused() -> None:
    form = RowCodebooks(np.zeros((2, 4)))
    for attempt in (lambda: form.encode(np.zeros((3, 8))), lambda: form.encode(np.zeros(()))):
        with pytest.raises(GraphError, match="do not fit") as refused:
            attempt()
        assert refused.value.code == "bad-granularity"
    with pytest.raises(GraphError, match="not in ascending order"):
        RowCodebooks(np.array([[1.0, 0.0]]))
    with pytest.raises(GraphError, match="2 of 16 values are not numbers"):
        form.encode(np.where(np.eye(2, 8) > 0, np.nan, 0))


def test_an_array_handed_in_stays_writeable() -> None:
    books = np.zeros((2, 4))
    RowCodebooks(books)
    books[0, 0] = -1
    vectors = np.zeros((2, 4))
    VectorCodebook(vectors)
    vectors[0, 0] = -1


@pytest.mark.parametrize(("count", "width"), [(1, 1), (7, 3), (256, 4), (300, 2)])
def test_vectors_by_brute_force(count: int, width: int) -> None:
    random = np.random.default_rng(2)
    form = VectorCodebook(random.standard_normal((count, width)))
    numbers = random.standard_normal((5, 6 * width))
    codes = form.encode(numbers)
    distance = ((numbers.reshape(5, 6, 1, width) - form.vectors) ** 2).sum(-1)
    np.testing.assert_array_equal(codes, distance.argmin(-1))
    off = np.abs(form.decode(codes) - numbers)
    assert (off <= form.error_bound(numbers)).all()
    np.testing.assert_array_equal(form.encode(form.decode(codes)), codes)


def test_bits_of_vectors() -> None:
    assert VectorCodebook(np.eye(4)[:4]).bits == 0.5
    assert VectorCodebook(np.zeros((65536, 1)) + np.arange(65536)[:, None]).bits == 16


def test_vectors_refuse_what_does_not_fit() -> None:
    form = VectorCodebook(np.eye(3))
    cases = (
        (lambda: form.encode(np.zeros(4)), "bad-granularity"),
        (lambda: form.encode(np.array([np.inf, 0, 0])), "values-not-finite"),
        (lambda: form.encode(np.array([np.nan, 0, 0])), "nan-has-no-code"),
        (lambda: form.decode(np.array([3])), "code-out-of-range"),
        (lambda: VectorCodebook(np.zeros(3)), "bad-format"),
        (lambda: VectorCodebook(np.zeros((0, 3))), "bad-format"),
        (lambda: VectorCodebook(np.full((2, 2), np.nan)), "bad-format"),
    )
    for attempt, code in cases:
        with pytest.raises(GraphError) as refused:
            attempt()
        assert refused.value.code == code
    assert form.encode(np.zeros((2, 0))).shape == (2, 0)
    assert form.decode(form.encode(np.zeros((0, 3)))).shape == (0, 3)
