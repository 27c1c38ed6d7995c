"""Which texts of two golden directories differ: programs after each pass, plans, kernels."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.dumps.dump_header import INPUT_PROGRAM, KERNELS, PLAN
from ascendfx.runtime.dumps.read_dump import DumpedStage
from ascendfx.runtime.golden.golden_directory import Golden

_SHOWN = 40
"""Lines of a diff that a report shows."""
_PLACE = re.compile(r"\s*// (?P<place>\S+:[0-9]+(?: in \S+)?)$")
_LOCATION = re.compile(r'^ *"location": ".*",?\n', re.MULTILINE)
"""Lines of the model may move, in plans as in programs."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is not as it was recorded.

    Attributes:
        kind: ``options``, ``weights``, ``program``, ``plan``, ``kernel``, ``pass``, ``output`` or
            ``tokens``.
        what: One line.
        lines: More, such as a diff.
    """

    kind: str
    what: str
    lines: tuple[str, ...] = ()


def changed_programs(recorded: Golden, made: Golden) -> Iterator[Change]:
    """Yield for each stage the first pass after which the program is another one."""
    older = {stage.name: stage for stage in recorded.dump.stages}
    for stage in made.dump.stages:
        if stage.name not in older:
            yield Change("program", f"stage {stage.name} is new")
        elif change := _first_change(older[stage.name], stage):
            yield change
    for name in older.keys() - {stage.name for stage in made.dump.stages}:
        yield Change("program", f"stage {name} is gone")


def _first_change(old: DumpedStage, new: DumpedStage) -> Change | None:
    for i, (was, now) in enumerate(zip(_files(old), _files(new), strict=False)):
        what = f"after pass `{new.passes[i - 1].name}`" if i else "as the stage begins"
        if was.name != now.name:
            names = f"`{old.passes[i - 1].name}`, now `{new.passes[i - 1].name}`"
            return Change("program", f"{new.name}: pass {i} was {names}")
        if _lines(was) != _lines(now):
            place = _first_place(was, now)
            return Change(
                "program",
                f"{new.name}/{now.name}: the program {what} differs, first {place}",
                _diff(_lines(was), _lines(now), f"{new.name}/{now.name}"),
            )
    if len(old.passes) != len(new.passes):
        longer = max(old, new, key=lambda stage: len(stage.passes))
        extra = longer.passes[min(len(old.passes), len(new.passes))].name
        state = "gone" if longer is old else "new"
        return Change("program", f"{new.name}: pass `{extra}` is {state}")
    return None


def changed_code(recorded: Golden, made: Golden) -> Iterator[Change]:
    """Yield each plan and kernel whose text is another one; the first of each plan with a diff."""
    for stage in made.dump.stages:
        old, new = recorded.dump.directory / stage.name, stage.directory
        was, now = _code(old), _code(new)
        for name in sorted(was.keys() | now.keys()):
            kind = "plan" if name == PLAN else "kernel"
            place = f"{stage.name}/{name}"
            if name not in now:
                yield Change(kind, f"{place} is gone")
            elif name not in was:
                yield Change(kind, f"{place} is new")
            elif was[name] != now[name]:
                lines = _diff(was[name].splitlines(), now[name].splitlines(), place)
                yield Change(kind, f"{place} differs", lines)


def _code(folder: Path) -> dict[str, str]:
    files = [*sorted((folder / KERNELS).glob("*.cpp")), *folder.glob(PLAN)]
    return {str(file.relative_to(folder)): _LOCATION.sub("", _read(file)) for file in files}


def _files(stage: DumpedStage) -> list[Path]:
    return [stage.directory / name for name in (INPUT_PROGRAM, *(p.file for p in stage.passes))]


def _lines(file: Path) -> list[str]:
    """Return the lines of a program without comments: a moved line of the model is no change."""
    return [line for line in _read(file).splitlines() if not line.lstrip().startswith("//")]


def _first_place(was: Path, now: Path) -> str:
    """Return the first line that differs, and the line of the model that it is of."""
    old, place, graph = _lines(was), "", ""
    count = 0
    for line in _read(now).splitlines():
        if found := _PLACE.match(line):
            place = found["place"]
        if line.lstrip().startswith("//"):
            continue
        if line.startswith("graph "):
            graph = line.split()[1].split("(")[0]
        if count >= len(old) or old[count] != line:
            return f"`{line.strip()}` in {graph}" + (f", {place}" if place else "")
        count += 1
    return "at its end"


def _diff(old: list[str], new: list[str], name: str) -> tuple[str, ...]:
    lines = list(
        difflib.unified_diff(old, new, f"recorded/{name}", f"now/{name}", lineterm="", n=1)
    )
    rest = len(lines) - _SHOWN
    return (*lines[:_SHOWN], *((f"... {rest} more lines",) if rest > 0 else ()))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(
            "damaged-golden",
            f"{file}: it cannot be read: {error}",
            hint="get it from version control, or record it again",
        ) from error
