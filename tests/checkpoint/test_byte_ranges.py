"""Tensors of a file cover its bytes without holes and without sharing, as the library demands."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.safetensors_file import read_header

Ranges = list[tuple[int, int]]


def content(ranges: Ranges, data_bytes: int) -> bytes:
    """Return a file of byte tensors ``t0``, ``t1``, ... at the given ranges."""
    header = {
        f"t{i}": {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        for i, (begin, end) in enumerate(ranges)
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data_bytes)


def accepted_by_the_library(data: bytes) -> bool:
    try:
        deserialize(data)
    except SafetensorError:
        return False
    return True


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Ranges, int]:
    """A right layout, in any order, of which up to two bounds and the length may be moved."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    bounds = [[end - size, end] for size, end in zip(sizes, ends, strict=True)]
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(bounds) - 1))
        side = draw(st.integers(0, 1))
        bounds[place][side] += draw(st.integers(-2, 2))
    ranges = [(max(begin, 0), max(begin, end, 0)) for begin, end in bounds]
    return draw(st.permutations(ranges)), max(ends[-1] + draw(st.sampled_from([0, 0, 0, -1, 1])), 0)


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=layouts())
def test_the_library_and_the_reader_accept_the_same_layouts(
    layout: tuple[Ranges, int], tmp_path: Path
) -> None:
    data = content(*layout)
    file = tmp_path / "a.safetensors"
    file.write_bytes(data)
    try:
        read_header(file)
    except GraphError as error:
        assert error.code == "damaged-file"  # noqa: PT017
        assert not accepted_by_the_library(data), str(error)  # noqa: PT017
    else:
        assert accepted_by_the_library(data)


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([(0, 8), (4, 12)], ("`t1` has bytes {4}..{12}", "`t0` at {0} goes on to {8}")),
        ([(0, 4), (8, 12)], ("`t1` has bytes {8}..{12}", "`t0` at {0} ends at {4}", "nobody owns")),
        ([(4, 12)], ("`t0` has bytes {4}..{12}", "the header ends at {0}")),
        ([(0, 4), (4, 8)], ("`t1` at {4} ends at byte {8}, the file has {12} bytes",)),
    ],
)
def test_the_message_has_file_tensors_and_bytes(
    ranges: Ranges, words: tuple[str, ...], tmp_path: Path
) -> None:
    data = content(ranges, 12)
    file = tmp_path / "a.safetensors"
    file.write_bytes(data)
    start = len(data) - 12
    with pytest.raises(GraphError) as caught:
        read_header(file)
    assert str(file) in caught.value.reason
    assert caught.value.hint
    for word in words:
        assert word.format(*range(start, start + 13)) in caught.value.reason


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (
            '{"a": {"dtype": "F32", "shape": [0, 1' + "0" * 30 + '], "data_offsets": [0, 0]}}',
            "no dtype",
        ),
        (
            '{"a": {"dtype": "F32", "shape": [0' + ", 1" * 69 + '], "data_offsets": [0, 0]}}',
            "no dtype",
        ),
        (
            '{"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},'
            ' "a": {"dtype": "F32", "shape": [0, 2], "data_offsets": [0, 0]}}',
            "`a` stands there twice",
        ),
    ],
)
def test_a_header_that_no_array_has_is_refused(header: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(GraphError, match=r"error\[damaged-file\]") as caught:
        read_header(file)
    assert told in caught.value.reason
