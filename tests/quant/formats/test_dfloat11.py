"""DFloat11 gives back every bit, and says what it cannot hold."""

import heapq
import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats import dfloat11, dfloat11_decode
from ascendfx.quant_passes.formats.dfloat11 import DFloat11, _encoded, _unpacked_gaps
from ascendfx.quant_passes.formats.dfloat11_decode import decode_exponents
from ascendfx.quant_passes.formats.dfloat11_tables import _prefixes, code_tables
from ascendfx.quant_passes.formats.huffman import END, Code, huffman_codes
from tests.quant.reference_vectors import vectors

CODEC = DFloat11()
STORABLE = st.builds(
    lambda sign, rest: sign << 15 | rest, st.integers(0, 1), st.integers(0, (240 << 7) - 1)
)


@given(
    bits=arrays.arrays(
        np.uint16, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=STORABLE
    )
)
def test_every_bit_comes_back(bits: np.ndarray) -> None:
    decoded = CODEC.decode(CODEC.encode(bits))
    assert decoded.shape == bits.shape
    np.testing.assert_array_equal(decoded, bits)


@pytest.mark.parametrize("count", [1, 2, 4095, 4096, 20_000, 150_000])
def test_normal_weights_of_many_lengths(count: int) -> None:
    weights = (0.02 * np.random.default_rng(count).standard_normal(count)).astype(np.float32)
    bits = (weights.view(np.uint32) >> 16).astype(np.uint16)
    streams = CODEC.encode(bits)
    np.testing.assert_array_equal(CODEC.decode(streams), bits)
    assert streams.output_positions[[0, -1]].tolist() == [0, count]
    counts = np.append(np.bincount((bits >> 7) & 0xFF), 1)  # with the end symbol
    share = counts[counts > 0] / counts.sum()
    entropy = -(share * np.log2(share)).sum()
    # Shannon: a Huffman code needs less than a bit per symbol more; the last byte is filled up.
    assert 8 * streams.encoded_exponent.size < (entropy + 1) * (count + 1) + 8


def test_parts_are_written_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = vectors("dfloat11")["w_bits"]
    monkeypatch.setattr(dfloat11, "_CHUNK", 37)
    streams = CODEC.encode(bits)
    np.testing.assert_array_equal(streams.encoded_exponent, vectors("dfloat11")["encoded_exponent"])
    np.testing.assert_array_equal(streams.gaps, vectors("dfloat11")["gaps"])


def test_threads_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = vectors("dfloat11")["w_bits"]
    monkeypatch.setattr(dfloat11_decode, "_THREADS", 5)
    np.testing.assert_array_equal(CODEC.decode(CODEC.encode(bits)).view(np.int16), bits)


@given(counts=st.dictionaries(st.integers(0, 239), st.integers(1, 10_000), min_size=1))
def test_codes_are_the_shortest(counts: dict[int, int]) -> None:
    """The total length is the sum of all joined weights, by an independent merge."""
    table = huffman_codes(counts)
    heap, total = [*counts.values(), 1], 0
    heapq.heapify(heap)
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        total += joined
        heapq.heappush(heap, joined)
    assert sum({**counts, END: 1}[s] * code.length for s, code in table.items()) == total
    assert sum(2.0**-code.length for code in table.values()) == 1
    texts = sorted(format(c.bits, f"0{c.length}b") for c in table.values())
    assert not any(b.startswith(a) for a, b in itertools.pairwise(texts))


def test_codes_are_at_most_32_bits_and_16_tables() -> None:
    """Counts of Fibonacci numbers make the longest codes there can be."""
    counts, a, b = {}, 1, 1
    for symbol in range(90):
        counts[symbol], a, b = a, b, a + b
    assert max(c.length for c in huffman_codes(counts).values()) > 32
    tables = code_tables(counts)
    assert tables.lengths.max() <= 32
    assert len(tables.luts) - 1 <= 16


def test_codes_with_too_many_tables_are_flattened() -> None:
    counts = {symbol: int(1.11**symbol) + 1 for symbol in range(200)}
    free = huffman_codes(counts)
    free.pop(END)
    assert max(code.length for code in free.values()) <= 32
    assert len(_prefixes(free)) > 16
    tables = code_tables(counts)
    assert len(tables.luts) - 1 <= 16
    symbols = np.arange(200).astype(np.uint8)
    encoded, gaps, _ = _encoded(symbols, tables, int(tables.lengths[symbols].sum()))
    got = decode_exponents(encoded, _unpacked_gaps(gaps), tables.luts, 200)
    np.testing.assert_array_equal(got, symbols)


@given(seed=st.integers(0, 2**32), count=st.integers(1, 6000), base=st.floats(1.05, 2.5))
@settings(max_examples=30)
def test_the_streams_one_code_at_a_time(seed: int, count: int, base: float) -> None:
    random = np.random.default_rng(seed)
    weights = base ** -np.arange(40.0)
    symbols = random.choice(40, count, p=weights / weights.sum())
    present = {int(s): int(n) for s, n in zip(*np.unique(symbols, return_counts=True), strict=True)}
    tables = code_tables(present)
    text, gaps, positions = "", [], []
    codes = [
        *(Code(int(tables.lengths[s]), int(tables.codes[s])) for s in symbols.tolist()),
        tables.end,
    ]
    for place, code in enumerate(codes):
        if place == count and len(text) % 8 == 0:
            break  # no end symbol behind a whole byte
        if len(text) // 64 == len(gaps):
            gaps.append(len(text) % 64)
        if len(text) // (64 * 512) == len(positions):
            positions.append(place)
        text += format(code.bits, f"0{code.length}b")
    size = -(-int(tables.lengths[symbols].sum()) // 8)
    text = text[: 8 * size].ljust(8 * size, "0")
    gaps += [0] * (512 * -(-size // 4096) - len(gaps))
    packed = "".join(format(gap, "05b") for gap in gaps)
    streams = CODEC.encode(symbols.astype(np.uint16) << 7)
    assert streams.encoded_exponent.tobytes() == bytes.fromhex(f"{int(text, 2):0{2 * size}x}")
    assert streams.gaps.tobytes() == bytes.fromhex(f"{int(packed, 2):0{len(packed) // 4}x}")
    assert streams.output_positions.tolist() == [*positions, count]


@given(exponents=st.lists(st.integers(0, 40), min_size=1, max_size=40, unique=True), data=st.data())
def test_long_codes_come_back(exponents: list[int], data: st.DataObject) -> None:
    """Codes far longer than a byte, through the tables of a skewed count."""
    skewed = {symbol: 2**place for place, symbol in enumerate(exponents)}
    bits = np.array(data.draw(st.lists(st.sampled_from(exponents), max_size=60)), np.uint16) << 7
    tables = code_tables(skewed)
    symbols = (bits >> 7).astype(np.uint8)
    total = int(tables.lengths[symbols].sum())
    encoded, gaps, _ = _encoded(symbols, tables, total)
    got = decode_exponents(encoded, _unpacked_gaps(gaps), tables.luts, symbols.size)
    np.testing.assert_array_equal(got, symbols)


@pytest.mark.parametrize(
    ("bits", "says"),
    [
        (0x7F80, "1 weights are infinite or not a number; below 2\\^113 they can be stored"),
        (0xFFC1, "1 weights are infinite or not a number"),
        (240 << 7, "1 weights are 2\\^113 and more"),
    ],
)
def test_what_the_tables_cannot_hold_is_refused(bits: int, says: str) -> None:
    with pytest.raises(GraphError, match=says) as refused:
        CODEC.encode(np.array([0, bits], np.uint16))
    assert refused.value.code == "exponent-not-storable"


def test_zeros_subnormals_and_the_largest_storable_exponent() -> None:
    bits = np.array([0x0000, 0x8000, 0x0001, 0x807F, (239 << 7) | 0x7F], np.uint16)
    np.testing.assert_array_equal(CODEC.decode(CODEC.encode(bits)), bits)


def test_other_elements_are_refused() -> None:
    with pytest.raises(GraphError, match="takes the bits of bfloat16 numbers, not float32"):
        CODEC.encode(np.zeros(3, np.float32))  # pyright: ignore[reportArgumentType]


def test_arrays_that_are_not_contiguous() -> None:
    bits = np.arange(60, dtype=np.uint16).reshape(6, 10) << 7
    np.testing.assert_array_equal(CODEC.decode(CODEC.encode(bits.T[::2])), bits.T[::2])


def test_damage_is_found() -> None:
    weights = (0.02 * np.random.default_rng(0).standard_normal(9000)).astype(np.float32)
    streams = CODEC.encode((weights.view(np.uint32) >> 16).astype(np.uint16))
    flipped = streams.encoded_exponent.copy()
    flipped[100:108] ^= 0xFF
    no_lengths = streams.luts.copy()
    no_lengths[-1] = 0
    wild = streams.luts.copy()
    wild[0, :] = 241
    damaged = (
        replace(streams, encoded_exponent=flipped),
        replace(streams, encoded_exponent=streams.encoded_exponent[:-300]),
        replace(streams, sign_mantissa=streams.sign_mantissa[:-1]),
        replace(streams, gaps=streams.gaps[:-400]),
        replace(streams, output_positions=streams.output_positions[:-1]),
        replace(streams, luts=no_lengths),
        replace(streams, luts=wild),
        replace(streams, shape=(9001,)),
    )
    for each in damaged:
        with pytest.raises(GraphError) as refused:
            CODEC.decode(each)
        assert refused.value.code == "damaged-stream"
