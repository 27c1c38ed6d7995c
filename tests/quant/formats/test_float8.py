"""FP8 against `ml_dtypes` on whole classes of bit patterns, and by brute force."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.float8 import E4M3FN, E5M2
from tests.quant.formats.exact_nearest import nearest_values

KINDS = [(E4M3FN, ml_dtypes.float8_e4m3fn), (E5M2, ml_dtypes.float8_e5m2)]
LOW_BITS = (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
every_kind = pytest.mark.parametrize(("kind", "reference"), KINDS)


@every_kind
@pytest.mark.parametrize("low", LOW_BITS)
def test_every_high_half_with_low_bits_that_matter(
    kind: type[E4M3FN | E5M2], reference: type, low: int
) -> None:
    bits = (np.arange(1 << 16, dtype=np.uint32) << 16) | np.uint32(low)
    _agree(bits, kind, reference)


@pytest.mark.nightly
@every_kind
def test_every_float32(kind: type[E4M3FN | E5M2], reference: type) -> None:
    for high in range(0, 1 << 16, 1 << 6):
        _agree(np.arange(high << 16, (high + (1 << 6)) << 16, dtype=np.uint32), kind, reference)


def _agree(bits: np.ndarray, kind: type[E4M3FN | E5M2], reference: type) -> None:
    numbers = bits.view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaN
        wanted = numbers.astype(reference).view(np.uint8)
    np.testing.assert_array_equal(kind("ieee").encode(numbers), wanted)
    saturated = kind().encode(numbers)
    finite = np.isfinite(kind().decode(wanted))
    np.testing.assert_array_equal(saturated[finite], wanted[finite])
    beyond = ~finite & ~np.isnan(numbers)
    largest = np.where(np.signbit(numbers[beyond]), 0x80, 0) | kind.largest_code
    np.testing.assert_array_equal(saturated[beyond], largest)
    assert np.isnan(kind().decode(saturated[np.isnan(numbers)])).all()


@given(number=st.floats(-600, 600) | st.floats(-1e-2, 1e-2))
def test_float64_is_not_rounded_twice(number: float) -> None:
    form = E4M3FN()
    got = float(form.decode(form.encode(np.array(number))))
    near = nearest_values(number, (v for v in form.decode(form.every_code()) if np.isfinite(v)))
    assert got in near


def test_a_float64_just_above_a_middle() -> None:
    middle = 1.0625  # between 1 and 1.125; as a float32, the next line would be the middle
    above = np.nextafter(middle, 2)
    assert E4M3FN().encode(np.array([middle, above])).tolist() == [0x38, 0x39]
    assert np.float32(above) == middle


def test_float64_beyond_float32_saturates() -> None:
    assert E4M3FN().encode(np.array([1e300, -1e300])).tolist() == [0x7E, 0xFE]
    assert E5M2("ieee").encode(np.array([1e300, -1e300])).tolist() == [0x7C, 0xFC]


def test_largest_values() -> None:
    assert (E4M3FN().largest, E5M2().largest) == (448, 57344)


def test_another_overflow_is_refused() -> None:
    with pytest.raises(GraphError, match="overflow `wrap` is not known") as refused:
        E4M3FN("wrap")  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "bad-format"


@every_kind
def test_half_gaps_are_reached(kind: type[E4M3FN | E5M2], reference: type) -> None:
    values = kind().decode(np.arange(kind.largest_code + 1).astype(np.uint8))
    middles = (values[1:] + values[:-1]) / 2
    off = np.abs(kind().decode(kind().encode(middles)) - middles)
    np.testing.assert_array_equal(off, kind().error_bound(middles))
    np.testing.assert_array_equal(
        kind().error_bound(np.array(float(ml_dtypes.finfo(reference).max))), 0
    )
