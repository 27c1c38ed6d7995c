"""What an evaluation found: as a table, and as data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.dumps.json_file import json_text, write_text
from ascendfx.runtime.evaluate.garbled import fails
from ascendfx.runtime.evaluate.sums import Record, total
from ascendfx.runtime.evaluate.task import Figures
from ascendfx.runtime.evaluate.tasks import Tasks

VERSION = 1
_SIGNED = ("change", "drafts accepted change")
_PLAIN = ("perplexity", "float perplexity", "entropy")
_COUNTS = ("samples", "tokens")
_SMALL = ("kl",)


@dataclass(frozen=True, slots=True)
class Group:
    """Samples of one kind.

    Attributes:
        by: ``all``, ``language`` or ``kind``.
        value: Which.
        figures: What is reported, ``samples`` first.
    """

    by: str
    value: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What one task found.

    Attributes:
        task: Its name.
        groups: All samples first, then by language and by kind, where there are several.
    """

    task: str
    groups: tuple[Group, ...]

    @property
    def figures(self) -> Figures:
        """Of all samples."""
        return self.groups[0].figures


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What an evaluation found; the same for any number of workers.

    Attributes:
        about: Which model, beside which, and how; see `evaluate`.
        tasks: In the order in which they are listed.
        remarks: What is to be told of single samples, and of the models.
        harness: What lm-evaluation-harness reports, by task.
    """

    about: Mapping[str, Any]
    tasks: tuple[TaskReport, ...]
    remarks: tuple[str, ...] = ()
    harness: Mapping[str, Any] | None = None

    @property
    def garbled(self) -> bool:
        """Whether too many answers are no text."""
        return any(fails(each.figures) for each in self.tasks if each.task == "garbled")

    def figures(self, task: str) -> Figures:
        """Return the figures of a task over all samples.

        Raises:
            KeyError: It was not evaluated.
        """
        return {each.task: each.figures for each in self.tasks}[task]

    def data(self) -> dict[str, Any]:
        """Return all as plain data."""
        tasks: dict[str, Any] = {}
        for each in self.tasks:
            found: dict[str, Any] = {"all": each.figures}
            for by in ("language", "kind"):
                groups = {g.value: g.figures for g in each.groups if g.by == by}
                found |= {by: groups} if groups else {}
            tasks[each.task] = found
        found = {"version": VERSION, **self.about, "tasks": tasks, "remarks": list(self.remarks)}
        if any(each.task == "garbled" for each in self.tasks):
            found["garbled"] = self.garbled
        return found | ({"harness": dict(self.harness)} if self.harness else {})

    def write(self, file: Path) -> None:
        """Write the data as JSON: the whole file, or nothing.

        Raises:
            GraphError: The place cannot be written.
        """
        with writing(file):
            write_text(file, self.text())

    def text(self) -> str:
        """Return the data as JSON."""
        return json_text(self.data())

    def table(self) -> list[str]:
        """Return lines: a table for each task, a row for each group."""
        lines: list[str] = []
        for each in self.tasks:
            lines += [*([""] if lines else []), *_table(each)]
        for name, figures in sorted((self.harness or {}).items()):
            told = ", ".join(f"{key} {value:.4f}" for key, value in sorted(figures.items()))
            lines.append(f"lm-eval {name}: {told}")
        return lines


def report_of(
    records: Sequence[Record],
    tasks: Tasks,
    about: Mapping[str, Any],
    remarks: Sequence[str] = (),
    harness: Mapping[str, Any] | None = None,
) -> EvaluationReport:
    """Return the report of records; their order does not matter."""
    found: list[TaskReport] = []
    ordered = sorted(records, key=lambda each: each.index)
    for name, task in tasks.items():
        own = [each for each in ordered if each.task == name]
        if own:
            groups = (
                Group("all", "all", _figures(own, task.figures)),
                *_groups(own, "language", lambda each: each.language, task.figures),
                *_groups(own, "kind", lambda each: each.kind, task.figures),
            )
            found.append(TaskReport(name, groups))
    told = [f"{each.task} {each.index}: {each.remark}" for each in ordered if each.remark]
    return EvaluationReport(about, tuple(found), (*remarks, *told), harness)


def _groups(
    records: Sequence[Record],
    by: str,
    of: Callable[[Record], str],
    figures: Callable[[Mapping[str, float]], Figures],
) -> Iterable[Group]:
    values = sorted({of(each) for each in records})
    if values == ["?"]:
        return ()
    return tuple(
        Group(by, value, _figures([r for r in records if of(r) == value], figures))
        for value in values
    )


def _figures(
    records: Sequence[Record], figures: Callable[[Mapping[str, float]], Figures]
) -> Figures:
    sums = total(records)
    found = {"samples": sums["samples"], **figures(sums)}
    for model in ("", "float "):
        proposed = sums.get(f"{model}proposed drafts")
        if proposed:
            found[f"{model}accepted drafts"] = sums[f"{model}accepted drafts"] / proposed
    return found


def _table(report: TaskReport) -> list[str]:
    names = list(dict.fromkeys(name for group in report.groups for name in group.figures))
    rows = [[report.task, *names]]
    rows += [
        [
            group.value if group.by == "all" else f"{group.by} {group.value}",
            *(shown(name, group.figures.get(name)) for name in names),
        ]
        for group in report.groups
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]


def shown(name: str, value: float | None) -> str:
    """Return a figure as the table has it."""
    if value is None:
        return ""
    if name in _COUNTS:
        return f"{value:,.0f}"
    if name in _SIGNED:
        return f"{value:+.2%}"
    if name in _SMALL:
        return f"{value:.5f}"
    return f"{value:.4f}" if name in _PLAIN else f"{value:.2%}"
