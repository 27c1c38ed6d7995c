"""The lines of the model's source around the places a dump names."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_AROUND = 6
"""Lines shown before and after a place."""
_MOST_BYTES = 4_000_000
"""A larger file is no source that a person wrote."""


@dataclass(frozen=True, slots=True)
class SourceLines:
    """A run of lines.

    Attributes:
        first: Number of the first line, from 1.
        lines: Without line ends.
    """

    first: int
    lines: tuple[str, ...]


def source_lines(places: Iterable[tuple[str, int]]) -> dict[str, tuple[SourceLines, ...]]:
    """Return the lines around each ``(file, line)``, overlapping runs joined.

    A file that cannot be read on this machine is left out: a dump may come from another one.
    Relative names are not looked up, they would mean another file in each folder.
    """
    wanted: dict[str, set[int]] = {}
    for file, line in places:
        wanted.setdefault(file, set()).add(line)
    found: dict[str, tuple[SourceLines, ...]] = {}
    for file, numbers in sorted(wanted.items()):
        text = _read(Path(file))
        runs = _runs(text, numbers) if text is not None else ()
        if runs:
            found[file] = runs
    return found


def _read(file: Path) -> str | None:
    try:
        if not file.is_absolute() or not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):  # ValueError: a NUL in the name
        return None


def _runs(text: str, numbers: set[int]) -> tuple[SourceLines, ...]:
    lines = text.splitlines()
    shown = {
        near
        for number in numbers
        if 1 <= number <= len(lines)
        for near in range(max(1, number - _AROUND), min(len(lines), number + _AROUND) + 1)
    }
    starts = sorted(number for number in shown if number - 1 not in shown)
    ends = sorted(number for number in shown if number + 1 not in shown)
    return tuple(
        SourceLines(start, tuple(lines[start - 1 : end]))
        for start, end in zip(starts, ends, strict=True)
    )
