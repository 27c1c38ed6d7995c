"""HiFloat8: the layout, both overflows, and the hybrid rounding of section 3.2 of the paper."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.hifloat8 import HiFloat8
from tests.quant.formats.exact_nearest import nearest_values

EXAMPLES = {
    0x00: 0,
    0x08: 1,
    0x0C: 1.5,
    0x0F: 1.875,
    0x10: 2,
    0x18: 0.5,
    0x1F: 0.9375,
    0x20: 4,
    0x30: 0.25,
    0x40: 16,
    0x50: 2**-4,
    0x60: 256,
    0x70: 2**-8,
    0x7F: 1.5 * 2**-15,
    0x07: 2**-16,
    0x01: 2**-22,
    0x6E: 2**15,
    0x7E: 2**-15,
    0xEE: -(2**15),
    0x6F: math.inf,
    0xEF: -math.inf,
}
FORM = HiFloat8()
VALUES = FORM.decode(FORM.every_code())
FINITE = VALUES[np.isfinite(VALUES)]


@pytest.mark.parametrize(("code", "value"), EXAMPLES.items())
def test_examples_of_codes(code: int, value: float) -> None:
    assert FORM.decode(np.array([code], np.uint8)) == value
    assert FORM.encode(np.array([value])) == code


def test_126_positive_values_and_one_zero() -> None:
    assert np.sum((VALUES > 0) & np.isfinite(VALUES)) == 126
    assert np.isnan(VALUES[0x80])
    assert not np.signbit(VALUES[0])


@given(
    number=st.floats(-(2.0**16), 2.0**16, width=32)
    | st.floats(-20, 20, width=32)
    | st.floats(-(2.0**-14), 2.0**-14, width=32)
)
def test_the_nearest_value_by_brute_force(number: float) -> None:
    got = float(FORM.decode(FORM.encode(np.array(number, np.float32))))
    near = nearest_values(number, FINITE)
    assert got == max(near, key=abs)


def test_underflow_is_at_two_to_the_minus_23() -> None:
    limit = np.float32(2.0**-23)
    below = np.nextafter(limit, np.float32(0))
    assert FORM.encode(np.array([below, limit, -limit, -0.0], np.float32)).tolist() == [
        *(0, 0x01, 0x81, 0)
    ]


def test_both_overflow_conventions() -> None:
    limit = np.float32(1.25 * 2**15)
    numbers = np.array([np.nextafter(limit, np.float32(0)), limit, -limit, 1e300, np.inf, -np.inf])
    saturating, infinite = (
        HiFloat8("saturate").encode(numbers),
        HiFloat8("infinity").encode(numbers),
    )
    assert saturating.tolist() == [0x6E, 0x6E, 0xEE, 0x6E, 0x6F, 0xEF]
    assert infinite.tolist() == [0x6E, 0x6F, 0xEF, 0x6F, 0x6F, 0xEF]


def hybrid(number: float, bits: int, mantissa: int, lowest_bit: int) -> float:
    """Return the rounding of section 3.2, one number at a time, in whole numbers.

    ``bits`` are the lowest 23 bits of the number as a float32, ``mantissa`` how many of them the
    source has.
    """
    exponent = math.frexp(number)[1] - 1
    if abs(exponent) < 4 or exponent < -22:
        return max(nearest_values(number, FINITE), key=abs)
    kept = {3: 3, 2: 3, 1: 3, 0: 3}.get(abs(exponent), 2 if abs(exponent) < 8 else 1)
    kept = kept if abs(exponent) <= 15 else 0 if exponent < 0 else 1
    dropped = 23 - kept
    size, rest = bits >> dropped, bits & ((1 << dropped) - 1)
    if mantissa == 23:
        fraction, threshold = rest >> (dropped - 14), bits & 0x3FFF
    else:
        fraction, threshold = rest >> (dropped - 2), 2 * lowest_bit + 1
    if fraction and fraction >= threshold:
        size += 1
    value = 2.0**exponent * (1 + size / 2**kept)
    return min(value, 2.0**15)


@pytest.mark.parametrize("source", [DType.F32, DType.BF16, DType.F16])
def test_hybrid_rounding_one_number_at_a_time(source: DType) -> None:
    random = np.random.default_rng(5)
    sizes = 2.0 ** random.uniform(-24 if source is not DType.F16 else -14, 15.9, 1500)
    numbers = np.concatenate([FINITE[FINITE > 0], sizes]).astype(source.numpy)
    form = HiFloat8(rounding="hybrid", source=source)  # pyright: ignore[reportArgumentType]
    got = form.decode(form.encode(numbers))
    raw = numbers.view(np.uint32 if source is DType.F32 else np.uint16)
    single = numbers.astype(np.float32)
    mantissa = single.view(np.uint32) & 0x7FFFFF
    digits = {DType.F32: 23, DType.F16: 10, DType.BF16: 7}[source]
    wanted = [
        hybrid(float(x), int(m), digits, int(r) & 1)
        for x, m, r in zip(single, mantissa, raw, strict=True)
    ]
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(form.decode(form.encode(-numbers)), -got)


@pytest.mark.parametrize("source", [DType.F32, DType.BF16, DType.F16])
@pytest.mark.parametrize("overflow", ["saturate", "infinity"])
def test_hybrid_rounding_keeps_the_values_of_the_format(source: DType, overflow: str) -> None:
    form = HiFloat8(overflow, "hybrid", source)  # pyright: ignore[reportArgumentType]
    exact = FINITE[FINITE.astype(source.numpy).astype(np.float64) == FINITE]
    np.testing.assert_array_equal(form.decode(form.encode(exact)), exact)


@pytest.mark.parametrize(("exponent", "gap"), [(5, 2**3), (-6, 2**-8), (9, 2**8), (-17, 2**-17)])
def test_hybrid_rounding_keeps_the_mean(exponent: int, gap: float) -> None:
    """The mean of n independent errors below one gap strays by less than 5 gap / (2 sqrt n).

    The standard deviation of a two-point distribution of width ``gap`` is at most ``gap / 2``;
    five of them are left out once in millions, and the seed is fixed. F has 14 bits, which adds a
    bias of ``gap * 2**-14``.
    """
    count = 1 << 18
    random = np.random.default_rng(3).integers(0, 1 << 23, count, dtype=np.uint32)
    numbers = (np.uint32(127 + exponent) << np.uint32(23) | random).view(np.float32)
    form = HiFloat8(rounding="hybrid")
    error = form.decode(form.encode(numbers)) - numbers
    assert abs(error.mean()) < gap * (2.5 / math.sqrt(count) + 2.0**-14)
    at_ties = HiFloat8().decode(HiFloat8().encode(numbers)) - numbers
    assert np.abs(error).mean() > 1.2 * np.abs(at_ties).mean(), "the price of it"


def test_hybrid_rounding_overflows_as_declared() -> None:
    numbers = np.array([1.5 * 2**15, 65504, 1e30, np.inf, -1e30, np.nan], np.float32)
    assert HiFloat8("saturate", "hybrid").encode(numbers).tolist() == [
        *(0x6E, 0x6E, 0x6E, 0x6F, 0xEE, 0x80)
    ]
    assert HiFloat8("infinity", "hybrid").encode(numbers).tolist() == [
        *(0x6F, 0x6F, 0x6F, 0x6F, 0xEF, 0x80)
    ]
    # Beyond the largest float16, numbers stay finite.
    narrow = HiFloat8("saturate", "hybrid", DType.F16).encode(np.array([1e6, np.inf]))
    assert narrow.tolist() == [0x6E, 0x6F]


def test_bfloat16_and_float16_arrays_are_taken_as_they_are() -> None:
    numbers = np.linspace(-40, 40, 333)
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        narrow = numbers.astype(dtype)
        np.testing.assert_array_equal(FORM.encode(narrow), FORM.encode(narrow.astype(np.float64)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"overflow": "wrap"}, "hifloat8: overflow `wrap` is not known"),
        ({"rounding": "even"}, "hifloat8: rounding `even` is not known"),
        ({"source": DType.I8}, "hifloat8: source `DType.I8` is not known"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, object], says: str) -> None:
    with pytest.raises(GraphError, match=says) as refused:
        HiFloat8(**options)  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "bad-format"


def test_hybrid_numbers_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).standard_normal((7, 9)).astype(np.float32) * 99
    form = HiFloat8(rounding="hybrid")
    whole = form.encode(numbers)
    monkeypatch.setattr("ascendfx.quant_passes.formats.hifloat8._CHUNK", 10)
    np.testing.assert_array_equal(form.encode(numbers), whole)
