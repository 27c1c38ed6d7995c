"""HiFloat4 against one group at a time in plain floats."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.format import GroupCodes
from ascendfx.quant_passes.formats.hifloat4 import HiFloat4

FORM = HiFloat4()


def bf16(number: float) -> float:
    return float(bfloat16(np.float32(number)))


def group_at_a_time(group: list[float]) -> tuple[list[int], list[int], list[float]]:
    """Return elements, metadata bytes and values of 64 float32 numbers."""
    wanted = bf16(float(np.float32(max(map(abs, group))) * np.float32(bf16(1 / 7))))
    wanted = min(max(wanted, 2.0**-48), 1.5 * 2**15)
    exponent = math.floor(math.log2(wanted))
    quarters = round(wanted * 2.0 ** (2 - exponent))
    scale = quarters * 2.0 ** (exponent - 2)
    reciprocal = bf16(1 / scale)
    eights = [max(map(abs, group[i : i + 8])) * reciprocal >= 4 for i in range(0, 64, 8)]
    fours = [
        max(map(abs, group[i : i + 4])) * reciprocal * 2.0 ** -eights[i // 8] >= 2
        for i in range(0, 64, 4)
    ]
    elements, values = [], []
    for i, number in enumerate(group):
        doubled = eights[i // 8] + fours[i // 4]
        scaled = bf16(float(np.float32(abs(number) * reciprocal)) * 2.0**-doubled)
        code = min(max(math.floor(4 * scaled + 0.5), 0), 7)
        negative = math.copysign(1, number) < 0
        elements.append(8 * negative + code)
        values.append(math.copysign(scale * 2.0**doubled * code / 4, number))
    bits = "".join(str(int(each)) for each in (*eights, *fours))
    metadata = [(exponent + 48) * 4 + quarters - 4, *(int(bits[i : i + 8], 2) for i in (0, 8, 16))]
    return elements, metadata, values


@given(seed=st.integers(0, 2**32), size=st.integers(-60, 25), spread=st.floats(0, 3))
def test_one_group_at_a_time(seed: int, size: int, spread: float) -> None:
    random = np.random.default_rng(seed)
    numbers = random.standard_normal(64) * np.exp(spread * random.standard_normal(64)) * 2.0**size
    numbers = numbers.astype(np.float32)
    codes = FORM.encode(numbers)
    elements, metadata, values = group_at_a_time(numbers.tolist())
    assert codes.elements.tolist() == elements
    assert codes.metadata.tolist() == [metadata]
    np.testing.assert_array_equal(FORM.decode(codes), values)


def test_a_group_by_hand() -> None:
    """The largest number is 7, so the scale is 1; from 4 and from 2 on, exponents are one."""
    numbers = np.zeros(64, np.float32)
    numbers[:4] = [7, -1.5, 3.5, 0]
    numbers[9] = -0.25
    numbers[16], numbers[24], numbers[62] = 4, 2, 1.75
    codes = FORM.encode(numbers)
    # Exponent 0, mantissa 4 of 4: byte 48 * 4. Then the eights and the fours that are doubled.
    assert codes.metadata.tolist() == [[192, 0b10100000, 0b10001010, 0]]
    assert codes.elements[:4].tolist() == [7, 8 + 2, 4, 0]
    assert codes.elements[[9, 16, 24, 62]].tolist() == [8 + 1, 4, 4, 7]
    decoded = FORM.decode(codes)
    assert decoded[[0, 1, 2, 9, 16, 24, 62]].tolist() == [7, -2, 4, -0.25, 4, 2, 1.75]


def test_the_ends_of_the_scale() -> None:
    assert FORM.encode(np.zeros(64)).metadata.tolist() == [[0, 0, 0, 0]]
    huge = FORM.encode(np.full(64, 1e30))
    assert huge.metadata[0, 0] == 0xFE
    assert FORM.decode(huge).tolist() == [FORM.largest] * 64


def test_a_scale_whose_mantissa_carries() -> None:
    """1.95 rounds to 8 quarters, which is the next power of two."""
    codes = FORM.encode(np.full(64, 1.95 * 7, np.float32))
    assert codes.metadata[0, 0] == (1 + 48) * 4


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_group_that_is_not_finite_is_nan_as_a_whole(bad: float) -> None:
    numbers = np.ones((2, 128), np.float32)
    numbers[0, 70] = bad
    codes = FORM.encode(numbers)
    assert codes.metadata[..., 0].tolist()[0][1] == 0xFF
    decoded = FORM.decode(codes)
    assert np.isnan(decoded[0, 64:]).all()
    assert np.isfinite(decoded).sum() == 192


def test_zeros_keep_their_sign() -> None:
    decoded = FORM.decode(FORM.encode(np.full(64, -0.0)))
    assert np.signbit(decoded).all()


@pytest.mark.parametrize("shape", [(), (63,), (2, 65)])
def test_other_lengths_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(GraphError, match="is not a multiple of 64") as refused:
        FORM.encode(np.zeros(shape))
    assert refused.value.code == "bad-granularity"


def test_streams_that_do_not_fit_are_refused() -> None:
    codes = FORM.encode(np.ones((2, 64)))
    damaged = (
        GroupCodes(codes.elements, codes.metadata[:1]),
        GroupCodes(codes.elements[:, :63], codes.metadata),
        GroupCodes(codes.elements + np.uint8(16), codes.metadata),
    )
    for each in damaged:
        with pytest.raises(GraphError) as refused:
            FORM.decode(each)
        assert refused.value.code == "damaged-stream"


def test_leading_axes_and_empty_arrays() -> None:
    numbers = np.random.default_rng(0).standard_normal((2, 3, 128))
    whole, part = FORM.encode(numbers), FORM.encode(numbers[1, 2, 64:])
    np.testing.assert_array_equal(whole.elements[1, 2, 64:], part.elements)
    np.testing.assert_array_equal(whole.metadata[1, 2, 1:], part.metadata)
    assert FORM.encode(np.zeros((0, 64))).metadata.shape == (0, 1, 4)
    assert FORM.encode(np.zeros((3, 0))).metadata.shape == (3, 0, 4)


def test_groups_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 256)).astype(np.float32)
    whole = FORM.encode(numbers)
    monkeypatch.setattr("ascendfx.quant_passes.formats.hifloat4._GROUPS", 5)
    parts = FORM.encode(numbers)
    np.testing.assert_array_equal(parts.elements, whole.elements)
    np.testing.assert_array_equal(parts.metadata, whole.metadata)
