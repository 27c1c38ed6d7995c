"""Every format of the library passes its check, and mistakes of every kind are named."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.check_format import check_format
from ascendfx.quant_passes.formats.codebook import Codebook
from ascendfx.quant_passes.formats.format import (
    Codes,
    Conduct,
    Float64s,
    Floats,
    Format,
    GroupCodes,
)
from ascendfx.quant_passes.formats.hifloat4 import HiFloat4
from ascendfx.quant_passes.formats.registry import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_the_library_passes(name: str) -> None:
    check_format(FORMATS[name])


@pytest.mark.parametrize("seed", range(3))
def test_any_codebook_passes(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.standard_normal(50) * 10.0 ** random.integers(-9, 9, 50)
    check_format(Codebook(tuple(sizes)))
    check_format(Codebook((float(sizes[0]),)))


_BYTE, _CONDUCT = np.dtype(np.uint8), Conduct()


@dataclass(frozen=True)
class Powers:
    """A format as a user writes it: 0 and the powers of two from -2^6 to 2^6, ties to even.

    The code is the exponent plus 7, with 64 added for a negative number.
    """

    name: str = "powers"
    bits: int = 7
    codes: np.dtype[Any] = _BYTE
    largest: float = 64.0
    conduct: Conduct = _CONDUCT

    def every_code(self) -> Codes:
        positive = np.arange(14)
        return np.concatenate([positive, positive[1:] + 64]).astype(np.uint8)

    def encode(self, values: Floats) -> Codes:
        numbers = np.asarray(values, np.float64)
        if np.isnan(numbers).any():
            raise GraphError("nan-has-no-code", "powers: NaN", hint="leave it out")
        magnitudes = np.array([0, *(2.0 ** np.arange(-6, 7))])
        middles = (magnitudes[1:] + magnitudes[:-1]) / 2
        size = np.abs(numbers)
        up = np.searchsorted(middles, size, side="right")
        down = np.searchsorted(middles, size, side="left")
        code = np.where(up % 2 == 0, up, down)
        return (code + 64 * (np.signbit(numbers) & (code > 0))).astype(np.uint8)

    def decode(self, codes: Codes) -> Float64s:
        place = np.asarray(codes).astype(np.int64)
        magnitude = np.where(place % 64 > 0, 2.0 ** (place % 64 - 7), 0)
        return np.where(place >= 64, -magnitude, magnitude)

    def error_bound(self, values: Floats) -> Float64s:
        size = np.abs(np.asarray(values, np.float64))
        return np.maximum(np.maximum(size / 3, 2.0**-7), size - 64)


@dataclass(frozen=True)
class Other(Powers):
    """`Powers` with another `encode`, `decode` or `error_bound`."""

    encode_as: Callable[[Floats], Codes] = Powers().encode
    decode_as: Callable[[Codes], Float64s] = Powers().decode
    bound_as: Callable[[Floats], Float64s] = Powers().error_bound

    def encode(self, values: Floats) -> Codes:
        return self.encode_as(values)

    def decode(self, codes: Codes) -> Float64s:
        return self.decode_as(codes)

    def error_bound(self, values: Floats) -> Float64s:
        return self.bound_as(values)


GOOD = Powers()


def test_a_format_of_a_user_passes() -> None:
    assert isinstance(GOOD, Format)
    check_format(GOOD)
    check_format(Other())


def _nearest(values: Floats, nudge: float) -> Codes:
    """Return the codes of numbers that are all a little larger than given."""
    return GOOD.encode(np.asarray(values, np.float64) * (1 + nudge))


def _changes_its_argument(values: Floats) -> Codes:
    codes = GOOD.encode(values)
    if values.ndim and values.flags.writeable and values.size > 5:
        values[values == values.max()] /= 2
    return codes


def _counts_calls() -> Callable[[Floats], Codes]:
    calls: list[int] = []

    def encode(values: Floats) -> Codes:
        calls.append(0)
        return GOOD.encode(np.asarray(values) * (1 if len(calls) % 2 else 0.5))

    return encode


def _overflowing(values: Floats) -> Codes:
    """Numbers from 96 on become 0."""
    codes = GOOD.encode(values)
    return np.where(np.abs(np.asarray(values)) >= 96, 0, codes).astype(np.uint8)


MISTAKES: dict[str, tuple[Format, str]] = {
    "ties away": (replace(GOOD, conduct=Conduct(ties="away")), "nearest: "),
    "ties low": (replace(GOOD, conduct=Conduct(ties="low")), "nearest: "),
    "a little too large": (Other(encode_as=lambda v: _nearest(v, 1e-7)), "nearest: "),
    "truncation": (Other(encode_as=lambda v: _nearest(v, -0.3)), "nearest: "),
    "float32 arithmetic": (
        Other(encode_as=lambda v: GOOD.encode(np.asarray(v).astype(np.float32))),
        "nearest: ",
    ),
    "zeros for all": (Other(encode_as=lambda v: 0 * GOOD.encode(v)), "round trip: "),
    "upside down": (Other(encode_as=lambda v: GOOD.encode(-np.asarray(v))), "monotone: "),
    "falls beyond the end": (Other(encode_as=_overflowing), "range: overflow is `saturate`"),
    "infinity promised": (replace(GOOD, conduct=Conduct(overflow="infinity")), "range: overflow"),
    "infinity refused": (replace(GOOD, conduct=Conduct(infinity="refuse")), "range: conduct.inf"),
    "nan promised": (replace(GOOD, conduct=Conduct(nan="nan")), "range: conduct.nan is `nan`"),
    "nan is zero": (
        Other(encode_as=lambda v: GOOD.encode(np.nan_to_num(v, nan=0.0, posinf=1e9, neginf=-1e9))),
        "range: conduct.nan is `refuse`",
    ),
    "bound too small": (Other(bound_as=lambda v: GOOD.error_bound(v) * 0.99), "error bound: "),
    "bound of nothing": (Other(bound_as=lambda v: GOOD.error_bound(v)[:1]), "error bound: has"),
    "bound is nan": (Other(bound_as=lambda v: GOOD.error_bound(v) * np.nan), "error bound: "),
    "largest": (replace(GOOD, largest=128.0), "declaration: largest is 128.0"),
    "too few bits": (replace(GOOD, bits=4), "declaration: 27 codes in 4 bits"),
    "too many bits": (replace(GOOD, bits=9), "declaration: 27 codes in 9 bits"),
    "no name": (replace(GOOD, name=""), "declaration: name ``"),
    "wide codes": (replace(GOOD, codes=np.dtype(np.int16)), "declaration: name `powers`, codes"),
    "unknown conduct": (
        replace(GOOD, conduct=Conduct(ties="up")),  # pyright: ignore[reportArgumentType]
        "declaration: conduct.ties is none of",
    ),
    "float32 values": (
        Other(decode_as=lambda c: GOOD.decode(c).astype(np.float32)),  # pyright: ignore[reportArgumentType]
        "declaration: decode returns float32",
    ),
    "wide codes from encode": (
        Other(encode_as=lambda v: GOOD.encode(v).astype(np.int64)),  # pyright: ignore[reportArgumentType]
        "declaration: encode returns int64",
    ),
    "flat codes": (Other(encode_as=lambda v: GOOD.encode(v).reshape(-1)), "arrays: "),
    "writes to its argument": (Other(encode_as=_changes_its_argument), "arrays: encode changes"),
    "remembers calls": (Other(encode_as=_counts_calls()), ""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_named(mistake: str) -> None:
    form, says = MISTAKES[mistake]
    with pytest.raises(GraphError) as refused:
        check_format(form)
    assert refused.value.code == "format-not-proved"
    assert any(note.startswith(says) for note in refused.value.notes), refused.value.notes


def test_a_message_has_an_example_of_each_check() -> None:
    with pytest.raises(GraphError) as refused:
        check_format(replace(GOOD, conduct=Conduct(ties="away")))
    assert str(refused.value) == (
        "error[format-not-proved]: format `powers` fails 1 of its checks\n"
        "   = note: nearest: -48.0 lies between -64.0 and -32.0, and becomes -32.0 (code 76)\n"
        "\n"
        "hint: what a format promises is told in quant_passes/formats/format.py"
    )


def test_codes_listed_twice() -> None:
    class Twice(Powers):
        def every_code(self) -> Codes:
            return np.zeros(2, np.uint8)

    with pytest.raises(GraphError, match="every_code does not list each code once"):
        check_format(Twice())


def test_what_is_no_format_is_told_what_it_lacks() -> None:
    with pytest.raises(GraphError, match="int lacks name, bits, codes, largest") as refused:
        check_format(4)  # pyright: ignore[reportArgumentType]
    assert refused.value.code == "format-not-proved"


class Groups(HiFloat4):
    """HiFloat4 with planted mistakes."""

    __slots__ = ("mistake",)

    def __init__(self, mistake: str) -> None:
        object.__setattr__(self, "mistake", mistake)

    @property
    def largest(self) -> float:
        return 1000.0 if self.mistake == "largest" else super().largest

    @property
    def bits(self) -> float:
        return 0.25 if self.mistake == "bits" else super().bits

    def encode(self, values: Floats) -> GroupCodes:
        given = np.asarray(values)
        if self.mistake == "any length" and given.shape[-1] == 63:
            given = np.zeros((*given.shape[:-1], 64))
        if self.mistake == "strides" and given.base is not None:
            given = given * 2
        return super().encode(given)

    def decode(self, codes: GroupCodes) -> Float64s:
        decoded = super().decode(codes)
        if self.mistake == "shape":
            return decoded.reshape(-1)
        return decoded.reshape(-1, 32) if self.mistake == "empty" and not decoded.size else decoded

    def error_bound(self, values: Floats) -> Float64s:
        return super().error_bound(values) * (0.5 if self.mistake == "bound" else 1)


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("largest", "declaration: largest is 1000.0"),
        ("bits", "declaration: 0.25 bits per value"),
        ("any length", "arrays: 63 numbers are not a group, and are encoded"),
        ("strides", "arrays: a strided array becomes other numbers"),
        ("shape", "arrays: "),
        ("empty", "arrays: an empty array becomes another shape"),
        ("bound", "error bound: "),
    ],
)
def test_mistakes_of_formats_with_groups(mistake: str, says: str) -> None:
    with pytest.raises(GraphError) as refused:
        check_format(Groups(mistake))
    assert any(note.startswith(says) for note in refused.value.notes), refused.value.notes
