"""The checks that make a format one: ours and those of users go through the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.check_group_format import complaints_about_group_format
from ascendfx.quant_passes.formats.format import (
    Bools,
    Codes,
    Conduct,
    Float64s,
    Floats,
    Format,
    GroupFormat,
)
from ascendfx.quant_passes.formats.format_probes import format_probes

_OPTIONS = {
    "ties": ("even", "away", "low", "either"),
    "overflow": ("saturate", "infinity", "nan"),
    "infinity": ("saturate", "infinity", "nan", "refuse"),
    "nan": ("nan", "refuse"),
}


def check_format(form: Format | GroupFormat, *, seed: int = 0) -> None:
    """Refuse a format that does not do what it declares.

    =============  ================================================================================
    check          what is tried
    =============  ================================================================================
    declaration    name, width, codes, largest value and conduct fit each other
    round trip     the value of every code is encoded as a code of that value
    nearest        every probe becomes the nearest value, ties as declared, compared exactly
    monotone       larger numbers never get smaller values
    range          numbers beyond the ends, infinities and NaN become what is declared
    error bound    no probe is off by more than the bound
    arrays         shape kept; float32 and float64, strided, empty and scalar arrays alike; pure
    =============  ================================================================================

    Probes are all values, the middles between them and their neighbours, both ends and beyond, and
    random bit patterns. A format with scales of its own is checked for bounds, arrays and refusals.

    Args:
        form: The format.
        seed: Of the random probes.

    Raises:
        GraphError: `format-not-proved` with one example of every check that fails.
    """
    if isinstance(form, Format):
        found = list(_complaints(form, seed))
    elif isinstance(form, GroupFormat):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = list(complaints_about_group_format(form, seed))
    else:
        found = [f"{type(form).__name__} lacks {', '.join(_missing(form))}"]
    if found:
        raise GraphError(
            "format-not-proved",
            f"format `{getattr(form, 'name', form)}` fails {len(found)} of its checks",
            notes=tuple(found),
            hint="what a format promises is told in quant_passes/formats/format.py",
        )


def _missing(form: object) -> list[str]:
    wanted = ("name", "bits", "codes", "largest", "conduct", "every_code")
    return [
        each for each in (*wanted, "encode", "decode", "error_bound") if not hasattr(form, each)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A format with what it makes of the probes.

    ``values`` are its finite values in ascending order; ``probes`` are ascending, too, and
    ``results`` what they become.
    """

    form: Format
    values: Float64s
    probes: Float64s
    codes: Codes
    results: Float64s

    def example(self, wrong: Bools) -> str:
        """Return the first probe of a mask and what it became."""
        i = int(wrong.argmax())
        return f"{float(self.probes[i])!r} becomes {float(self.results[i])!r}"


def _complaints(form: Format, seed: int) -> Iterator[str]:
    declared = list(_declaration(form))
    if declared:
        yield from declared
        return
    decoded = form.decode(form.every_code())
    values = np.unique(decoded[np.isfinite(decoded)])
    probes = format_probes(values, seed)
    codes = form.encode(probes)
    if codes.dtype != form.codes or codes.shape != probes.shape:
        yield f"declaration: encode returns {codes.dtype}{list(codes.shape)}"
        return
    trial = _Trial(form, values, probes, codes, form.decode(codes))
    checks = (_round_trip, _nearest, _monotone, _range, _specials, _error_bound, _arrays)
    for check in checks:
        yield from check(trial)


def _declaration(form: Format) -> Iterator[str]:
    codes = form.every_code()
    if not form.name or form.codes not in (np.dtype(np.int8), np.dtype(np.uint8)):
        yield f"declaration: name `{form.name}`, codes {form.codes}; they are int8 or uint8"
    if codes.ndim != 1 or codes.dtype != form.codes or len(np.unique(codes)) != codes.size:
        yield "declaration: every_code does not list each code once"
        return
    if not 0 < codes.size <= 2**form.bits or form.bits > 8:
        yield f"declaration: {codes.size} codes in {form.bits} bits"
    decoded = form.decode(codes)
    finite = decoded[np.isfinite(decoded)]
    if decoded.dtype != np.float64 or not finite.size:
        yield f"declaration: decode returns {decoded.dtype} with {finite.size} finite values"
    elif (most := float(np.abs(finite).max())) != form.largest:
        yield f"declaration: largest is {form.largest!r}, and decoding gives {most!r}"
    for option, known in _OPTIONS.items():
        if getattr(form.conduct, option) not in known:
            yield f"declaration: conduct.{option} is none of {', '.join(known)}"


def _round_trip(trial: _Trial) -> Iterator[str]:
    codes = trial.form.every_code()
    value = trial.form.decode(codes)
    codes, value = codes[np.isfinite(value)], value[np.isfinite(value)]
    again = trial.form.decode(trial.form.encode(value))
    wrong = again != value
    if wrong.any():
        i = int(wrong.argmax())
        got = float(again[i])
        yield f"round trip: code {codes[i]} is {float(value[i])!r}, which becomes {got!r}"


def _nearest(trial: _Trial) -> Iterator[str]:
    inside = (trial.probes >= trial.values[0]) & (trial.probes <= trial.values[-1])
    upper = np.searchsorted(trial.values, trial.probes)
    for i in np.flatnonzero(inside):
        high = float(trial.values[upper[i]])
        low = high if high == trial.probes[i] else float(trial.values[upper[i] - 1])
        got = float(trial.results[i])
        if not _is_right(trial, int(i), got, (low, high)):
            yield f"nearest: {float(trial.probes[i])!r} lies between {low!r} and {high!r}, " + (
                f"and becomes {got!r} (code {trial.codes[i]})"
            )
            return


def _is_right(trial: _Trial, i: int, got: float, around: tuple[float, float]) -> bool:
    low, high = around
    ties = trial.form.conduct.ties
    if got not in around:
        return False
    if ties == "either" or low == high:
        return True
    probe = Fraction(float(trial.probes[i]))
    below, above = probe - Fraction(low), Fraction(high) - probe
    if below != above:
        return got == (low if below < above else high)
    if ties == "low":
        return got == low
    if ties == "even":
        return int(trial.codes[i]) % 2 == 0
    return abs(got) == max(abs(low), abs(high))


def _monotone(trial: _Trial) -> Iterator[str]:
    if trial.form.conduct.ties == "either":
        return  # the nearest check holds each number between its neighbours
    results = trial.results[~np.isnan(trial.results)]
    probes = trial.probes[~np.isnan(trial.results)]
    falls = np.flatnonzero(results[1:] < results[:-1])
    if falls.size:
        i = int(falls[0])
        pairs = (f"{float(probes[j])!r} becomes {float(results[j])!r}" for j in (i, i + 1))
        yield f"monotone: {', and '.join(pairs)}"


def _range(trial: _Trial) -> Iterator[str]:
    overflow = trial.form.conduct.overflow
    below, above = trial.probes < trial.values[0], trial.probes > trial.values[-1]
    end = np.where(below, trial.values[0], trial.values[-1])
    infinity = np.where(below, -np.inf, np.inf)
    beyond = infinity if overflow == "infinity" else np.full(end.shape, np.nan)
    is_end = trial.results == end
    is_beyond = (trial.results == beyond) | (np.isnan(trial.results) & np.isnan(beyond))
    far = np.abs(trial.probes) >= 2 * np.abs(end)
    right = is_end if overflow == "saturate" else np.where(far, is_beyond, is_end | is_beyond)
    wrong = (below | above) & ~right
    if wrong.any():
        yield f"range: overflow is `{overflow}`, and {trial.example(wrong)}"


def _specials(trial: _Trial) -> Iterator[str]:
    conduct: Conduct = trial.form.conduct
    ends = {"saturate": trial.values[[-1, 0]], "infinity": np.array([np.inf, -np.inf])}
    wanted = ends.get(conduct.infinity, np.array([np.nan, np.nan]))
    cases = (
        ("infinity", conduct.infinity, np.array([np.inf, -np.inf]), wanted),
        ("nan", conduct.nan, np.array([np.nan]), np.array([np.nan])),
    )
    for option, declared, given, expected in cases:
        got = _decoded_or_refused(trial.form, given)
        if isinstance(got, str) != (declared == "refuse"):
            yield f"range: conduct.{option} is `{declared}`, and {given} gives {got}"
        elif not isinstance(got, str) and not np.array_equal(got, expected, equal_nan=True):
            yield f"range: conduct.{option} is `{declared}`, and {given} becomes {got}"


def _decoded_or_refused(form: Format, given: Floats) -> Float64s | str:
    try:
        return form.decode(form.encode(given))
    except GraphError as refusal:
        return f"the error {refusal.code}"


def _error_bound(trial: _Trial) -> Iterator[str]:
    bound = trial.form.error_bound(trial.probes)
    if bound.shape != trial.probes.shape:
        yield f"error bound: has shape {list(bound.shape)} for {list(trial.probes.shape)} numbers"
        return
    for i in np.flatnonzero(np.isfinite(trial.results)):
        off = abs(Fraction(float(trial.probes[i])) - Fraction(float(trial.results[i])))
        if not np.isfinite(bound[i]) or off > Fraction(float(bound[i])):
            only = trial.probes == trial.probes[i]
            yield f"error bound: {trial.example(only)}, off by more than {float(bound[i])!r}"
            return


def _arrays(trial: _Trial) -> Iterator[str]:
    encode = trial.form.encode
    single = np.unique(trial.probes.astype(np.float32))
    single = single[np.isfinite(single)]
    expected = encode(single)
    table = single[: single.size // 6 * 6].reshape(-1, 6)
    tries: tuple[tuple[str, Callable[[], Any], Codes], ...] = (
        ("float64", lambda: encode(single.astype(np.float64)), expected),
        ("a second call", lambda: encode(single), expected),
        ("a strided array", lambda: encode(single[::-2]), expected[::-2]),
        ("a transposed array", lambda: encode(table.T), expected[: table.size].reshape(-1, 6).T),
        ("an empty array", lambda: encode(single[:0].reshape(0, 3)), expected[:0].reshape(0, 3)),
        ("a scalar array", lambda: encode(single[0].reshape(())), expected[0].reshape(())),
    )
    before = single.copy()
    for what, attempt, wanted in tries:
        if not np.array_equal(attempt(), wanted):
            yield f"arrays: {what} has other codes"
    if not np.array_equal(single, before):
        yield "arrays: encode changes its argument"
