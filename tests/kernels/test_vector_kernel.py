"""Text and arithmetic that all vector kernels share."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.hardware_units import round_up
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    BufferKind,
    LocalBuffer,
    RowView,
    blocks_for,
    check_local_buffers,
    check_positive,
    check_view,
    float_literal,
    row_pitch,
)
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from tests.kernels.vector_case import TARGET


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_literal_reads_back_exactly(value: float) -> None:
    text = float_literal(value)
    assert text.endswith("f")
    assert struct.pack("f", float(text[:-1])) == struct.pack("f", value)
    assert "." in text or "e" in text


def test_literals_beyond_f32() -> None:
    assert float_literal(math.inf) == "__builtin_inff()"
    assert float_literal(-math.inf) == "-__builtin_inff()"
    assert float_literal(-1e300) == "-__builtin_inff()"


@given(st.integers(0, 10_000), st.integers(1, 512))
def test_rounding_up(value: int, multiple: int) -> None:
    rounded = round_up(value, multiple)
    assert rounded % multiple == 0
    assert 0 <= rounded - value < multiple


@given(st.integers(1, 20_000), st.sampled_from([DType.F32, DType.BF16]))
def test_every_row_starts_a_granule(columns: int, dtype: DType) -> None:
    pitch = row_pitch(columns, dtype, TARGET)
    assert pitch * dtype.bytes % 32 == 0
    assert columns <= pitch < columns + 32 // dtype.bytes


@given(st.integers(0, 1_000))
def test_no_more_cores_than_work(items: int) -> None:
    assert 1 <= blocks_for(items, TARGET) <= TARGET.vector_cores
    assert blocks_for(items, TARGET) <= max(1, items)


def test_refusals_give_the_numbers() -> None:
    buffers = (LocalBuffer("queue", BufferKind.INPUT, 100_000, copies=2),)
    with pytest.raises(GraphError, match=r"family needs 200,000 bytes .* has 188,160"):
        check_local_buffers("family", buffers, TARGET)
    with pytest.raises(GraphError, match="family: columns is 0"):
        check_positive("family", rows=3, columns=0)
    with pytest.raises(GraphError, match="rows of 8 elements at stride 8, offset -1"):
        check_view("family", RowView(8, -1), 8)
