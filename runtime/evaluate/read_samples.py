"""Sets of samples: a JSON object per line."""

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.sample import Reader, Row, Sample, wrong
from ascendfx.runtime.evaluate.tasks import AnyTask, Tasks

_TASK = "task"


def read_samples(
    files: Sequence[Path],
    tasks: Tasks,
    reader: Reader,
    *,
    chosen: Sequence[str] = (),
    limit: int | None = None,
) -> tuple[Sample, ...]:
    """Return the samples of all sets, in order.

    A row that names its ``task`` is of that one. Another one is of those of ``chosen`` that it
    fits, or, if none is chosen, of the first one that it fits.

    Args:
        files: The sets.
        tasks: All tasks.
        reader: Knows the model.
        chosen: Only these tasks; rows of other ones are left out. Empty: all.
        limit: Only so many rows of each set; None: all.

    Raises:
        GraphError: `bad-samples`: a set cannot be read, or has no rows, or none of the chosen
            tasks; a row lacks something. `sample-too-long`. The message has the line.
    """
    found: list[Sample] = []
    for file in files:
        rows = 0
        for row, place in _rows(file):
            if rows == limit:
                break
            rows += 1
            for task in _tasks_of(row, tasks, chosen, place):
                found += task.read(row, reader, place)
        if not rows:
            raise GraphError(
                "bad-samples", f"{file} holds no row", hint="give another set, or leave it out"
            )
    if not found:
        raise GraphError(
            "bad-samples",
            f"no row is of {' or '.join(f'`{name}`' for name in chosen)}",
            hint="name the task of the sets",
        )
    return tuple(found)


def _tasks_of(row: Row, tasks: Tasks, chosen: Sequence[str], place: Location) -> Sequence[AnyTask]:
    if _TASK in row:
        name: Any = row[_TASK]
        if name not in tasks:
            near = get_close_matches(str(name), tasks, n=1)
            meant = f"did you mean `{near[0]}`? " if near else ""
            raise wrong(f"no task is called `{name}`", f"{meant}known: {', '.join(tasks)}", place)
        return [tasks[name]] if not chosen or name in chosen else []
    if len(chosen) == 1:
        return [tasks[chosen[0]]]  # what is missing is told by the task
    fitting = [task for name, task in tasks.items() if task.fits(row) and name in (chosen or tasks)]
    if fitting:
        return fitting if chosen else fitting[:1]
    known = ", ".join(f"`{each}`" for each in list(row)[:6]) or "nothing"
    raise wrong(
        f"the row fits no task; it has {known}",
        f"name its `task`: {', '.join(chosen or tasks)}",
        place,
    )


def _rows(file: Path) -> Iterator[tuple[Row, Location]]:
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    place = Location(str(file), number)
                    yield _row(line, place), place
    except OSError as error:
        raise GraphError(
            "bad-samples", f"{file} cannot be read: {error.strerror}", hint="look at the name"
        ) from error
    except UnicodeDecodeError as error:
        raise GraphError(
            "bad-samples", f"{file} is no text in UTF-8", hint="write it as UTF-8"
        ) from error


def _row(line: str, place: Location) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise wrong(f"the line is no JSON: {error}", "write one object per line", place) from error
    if not isinstance(row, dict):
        raise wrong("the line is no JSON object", 'write {"text": ...}', place)
    return row
