"""Layouts against reference packages, and each with its inverse on all shapes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.packing import (
    nibbles_high_first,
    nibbles_low_first,
    rows_in_nibbles,
    words32,
)
from tests.quant.reference_vectors import vectors

DATA = vectors("packing")
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=40)


@pytest.mark.parametrize("who", ["ms", "optiquant", "ms_small"])
def test_rows_in_nibbles_as_msmodelslim_and_optiquant(who: str) -> None:
    codes, packed = DATA[f"{who}_codes"], DATA[f"{who}_packed"]
    got = rows_in_nibbles.pack(codes)
    assert got.dtype == packed.dtype
    np.testing.assert_array_equal(got, packed)
    np.testing.assert_array_equal(rows_in_nibbles.unpack(packed), codes)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_words_as_compressed_tensors(bits: int) -> None:
    codes, words = DATA[f"ct_int{bits}_codes"], DATA[f"ct_int{bits}_words"]
    got = words32.pack(codes, bits)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, words)
    np.testing.assert_array_equal(words32.unpack(words, bits, codes.size), codes)


def test_zero_points_are_packed_along_axis_0() -> None:
    codes, words = DATA["ct_zero_codes"], DATA["ct_zero_words"]
    np.testing.assert_array_equal(words32.pack(codes, 4, axis=0), words)
    np.testing.assert_array_equal(words32.unpack(words, 4, len(codes), axis=0), codes)


def test_nibbles_as_onnx() -> None:
    """onnx 1.23.2, INT4 of opset 21."""
    assert (
        nibbles_low_first.pack(np.array([3, -2, -4, 0, 2, 4, 0, 1])).tobytes().hex() == "e30c4210"
    )


def test_nibbles_as_bitsandbytes() -> None:
    """The first codes of the NF4 vector."""
    codes = np.array([12, 4, 1, 7, 10, 13, 8, 9])
    assert nibbles_high_first.pack(codes).tolist() == [196, 23, 173, 137]


@given(shape=SHAPES, bits=st.sampled_from([2, 3, 4, 8]), data=st.data())
def test_words_are_inverse_and_dense(
    shape: tuple[int, ...], bits: int, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    half = 1 << (bits - 1)
    codes = data.draw(arrays.arrays(np.int8, shape, elements=st.integers(-half, half - 1)))
    words = words32.pack(codes, bits, axis=axis)
    assert words.shape[axis] == -(-shape[axis] * bits // 32)
    np.testing.assert_array_equal(words32.unpack(words, bits, shape[axis], axis=axis), codes)
    if not codes.size:
        return
    row = np.moveaxis(codes, axis, -1).reshape(-1, shape[axis])[:1].ravel()
    stream = sum((int(code) + half) << (i * bits) for i, code in enumerate(row))
    first = np.moveaxis(words, axis, -1).reshape(-1, words.shape[axis])[:1].ravel()
    assert stream == sum(int(np.uint32(word)) << (32 * i) for i, word in enumerate(first))


@given(shape=SHAPES, signed=st.booleans(), data=st.data())
def test_nibbles_are_inverse(
    shape: tuple[int, ...],
    signed: bool,  # noqa: FBT001
    data: st.DataObject,
) -> None:
    low, high = (-8, 7) if signed else (0, 15)
    kind = np.int8 if signed else np.uint8
    codes = data.draw(arrays.arrays(kind, shape, elements=st.integers(low, high)))
    for layout in (nibbles_low_first, nibbles_high_first):
        packed = layout.pack(codes, signed=signed)
        assert packed.shape == (-(-codes.size // 2),)
        back = layout.unpack(packed, shape, signed=signed)
        assert back.dtype == kind
        np.testing.assert_array_equal(back, codes)
    for byte, pair in zip(
        nibbles_low_first.pack(codes, signed=signed),
        np.append(codes.ravel(), [0] * (codes.size % 2)).astype(np.int64).reshape(-1, 2),
        strict=True,
    ):
        assert int(byte) == (pair[0] & 15) + 16 * (pair[1] & 15)


@given(
    codes=arrays.arrays(
        np.int8,
        arrays.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=9).map(
            lambda s: (*s[:-2], 2 * s[-2], s[-1])
        ),
        elements=st.integers(-8, 7),
    )
)
def test_rows_in_nibbles_are_inverse(codes: np.ndarray) -> None:
    packed = rows_in_nibbles.pack(codes)
    assert packed.shape == (*codes.shape[:-2], codes.shape[-2] // 2, codes.shape[-1])
    np.testing.assert_array_equal(rows_in_nibbles.unpack(packed), codes)
    np.testing.assert_array_equal(packed.astype(int) & 15, codes[..., 0::2, :].astype(int) & 15)
    np.testing.assert_array_equal(packed.astype(int) >> 4, codes[..., 1::2, :])


def test_arrays_that_are_not_contiguous() -> None:
    codes = np.random.default_rng(0).integers(-8, 8, (6, 64)).astype(np.int8)
    for view in (codes.T, codes[::-1], codes[:, ::2]):
        same = view.copy()
        np.testing.assert_array_equal(rows_in_nibbles.pack(view), rows_in_nibbles.pack(same))
        np.testing.assert_array_equal(words32.pack(view, 4), words32.pack(same, 4))
        np.testing.assert_array_equal(nibbles_low_first.pack(view), nibbles_low_first.pack(same))
    packed = rows_in_nibbles.pack(codes)
    np.testing.assert_array_equal(rows_in_nibbles.unpack(packed[:, ::2]), codes[:, ::2])
    words = words32.pack(codes, 4)
    np.testing.assert_array_equal(words32.unpack(words[::2], 4, 64), codes[::2])


def test_rows_are_packed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(0).integers(-4, 4, (7, 50)).astype(np.int8)
    whole = words32.pack(codes, 3)
    monkeypatch.setattr(words32, "_CODES", 100)
    np.testing.assert_array_equal(words32.pack(codes, 3), whole)
    np.testing.assert_array_equal(words32.unpack(whole, 3, 50), codes)


REFUSED: list[tuple[Any, str]] = [
    (lambda: rows_in_nibbles.pack(np.zeros((3, 4), np.int8)), "bad-packing"),
    (lambda: rows_in_nibbles.pack(np.zeros(4, np.int8)), "bad-packing"),
    (lambda: rows_in_nibbles.pack(np.full((2, 4), 8)), "code-out-of-range"),
    (lambda: rows_in_nibbles.pack(np.zeros((2, 4))), "code-out-of-range"),
    (lambda: rows_in_nibbles.unpack(np.zeros(4, np.int8)), "bad-packing"),
    (lambda: rows_in_nibbles.unpack(np.zeros((2, 4), np.int32)), "bad-packing"),
    (lambda: nibbles_low_first.pack(np.array([16]), signed=False), "code-out-of-range"),
    (lambda: nibbles_low_first.pack(np.array([8])), "code-out-of-range"),
    (lambda: nibbles_low_first.unpack(np.zeros(3, np.uint8), (7,)), "bad-packing"),
    (lambda: nibbles_high_first.unpack(np.zeros(3, np.int32), (6,)), "bad-packing"),
    (lambda: words32.pack(np.zeros(4, np.int8), 5), "bad-packing"),
    (lambda: words32.pack(np.array([2]), 2), "code-out-of-range"),
    (lambda: words32.pack(np.zeros(4, np.int8), 4, axis=1), "bad-packing"),
    (lambda: words32.pack(np.array(3), 4), "bad-packing"),
    (lambda: words32.unpack(np.zeros(2, np.int32), 4, 17), "bad-packing"),
    (lambda: words32.unpack(np.zeros(2, np.int64), 4, 16), "bad-packing"),
    (lambda: words32.unpack(np.zeros(2, np.float32), 4, 16), "bad-packing"),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_shapes_and_codes_that_a_layout_does_not_have(place: int) -> None:
    attempt, code = REFUSED[place]
    with pytest.raises(GraphError) as refused:
        attempt()
    assert refused.value.code == code
    assert refused.value.hint
