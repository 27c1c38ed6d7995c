"""Integers: ranges, ties, saturation, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.integer import Integer
from tests.quant.formats.exact_nearest import nearest_values

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize("bits", range(2, 9))
def test_ranges(bits: int) -> None:
    half = 1 << (bits - 1)
    plain, narrow, unsigned = Integer(bits), Integer(bits, narrow=True), Integer(bits, signed=False)
    assert plain.every_code().tolist() == list(range(-half, half))
    assert narrow.every_code().tolist() == list(range(1 - half, half))
    assert unsigned.every_code().tolist() == list(range(2 * half))
    assert (plain.largest, narrow.largest, unsigned.largest) == (half, half - 1, 2 * half - 1)
    assert plain.codes == np.int8
    assert unsigned.codes == np.uint8


@given(number=FINITE | st.floats(-140, 140), bits=st.integers(2, 8), signed=st.booleans())
def test_the_nearest_integer_by_brute_force(number: float, bits: int, signed: bool) -> None:  # noqa: FBT001
    even, away = Integer(bits, signed=signed), Integer(bits, signed=signed, rounding="away")
    near = nearest_values(number, map(float, even.every_code()))
    got, outward = float(even.encode(np.array(number))), float(away.encode(np.array(number)))
    assert {got, outward} <= near
    if len(near) == 2:
        assert got % 2 == 0
        assert outward == max(near, key=abs)


def test_no_sum_with_a_half_is_rounded_twice() -> None:
    below = np.nextafter(0.5, 0)
    assert Integer(4, rounding="away").encode(np.array([below, -below, 0.5, -0.5])).tolist() == [
        *(0, 0, 1, -1)
    ]
    odd = np.array([2.0**52 + 1])  # adding a half makes the next even number of it
    assert Integer(8, rounding="away").rounded(odd) == odd


def test_infinities_saturate() -> None:
    assert Integer(4).encode(np.array([np.inf, -np.inf, 1e300])).tolist() == [7, -8, 7]


def test_nan_is_refused_with_its_place() -> None:
    values = np.zeros((3, 4), np.float32)
    values[1, 2] = values[2, 0] = np.nan
    with pytest.raises(GraphError) as refused:
        Integer(4).encode(values)
    assert str(refused.value) == (
        "error[nan-has-no-code]: int4: 2 of 12 values are not numbers; the first is at [1, 2]\n"
        "\n"
        "hint: look for an overflow in the model or in calibration, or replace them before"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bits": 1}, "an integer of 1 bits is not known"),
        ({"bits": 4.0}, "an integer of 4.0 bits is not known"),
        ({"bits": 16}, "an integer of 16 bits is not known"),
        ({"bits": 4, "narrow": True, "signed": False}, "no lowest negative code to leave out"),
        ({"bits": 4, "rounding": "up"}, "integers do not round `up`"),
    ],
)
def test_integers_that_do_not_exist(options: dict[str, object], says: str) -> None:
    with pytest.raises(GraphError, match=says) as refused:
        Integer(**options)  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "bad-format"


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        (np.array([7, 8], np.int8), "codes go from 7 to 8, not -8 to 7"),
        (np.array([0.0]), "codes are integers, not float64"),
    ],
)
def test_codes_of_another_format_are_refused(codes: np.ndarray, says: str) -> None:
    with pytest.raises(GraphError, match=says) as refused:
        Integer(4).decode(codes)
    assert refused.value.code == "code-out-of-range"


@pytest.mark.parametrize("dtype", [np.complex64, np.object_, np.bool_])
def test_what_is_no_real_number_is_refused(dtype: type) -> None:
    with pytest.raises(GraphError, match="the values have elements of") as refused:
        Integer(4).encode(np.zeros(3, dtype))
    assert refused.value.code == "not-numbers"


@given(values=arrays.arrays(np.float32, 5, elements=st.floats(-300, 300, width=32)))
def test_the_bound_is_a_half_inside_and_the_distance_outside(values: np.ndarray) -> None:
    bound = Integer(8).error_bound(values)
    inside = (values >= -128.5) & (values <= 127.5)
    assert (bound[inside] == 0.5).all()
    clipped = np.clip(values.astype(np.float64), -128, 127)
    np.testing.assert_array_equal(bound[~inside], np.abs(values - clipped)[~inside])
