"""What the page shows before any script runs: facts, totals and the timeline of passes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ascendfx.runtime.report.search_gain import gained_words
from ascendfx.runtime.report.units import binary_bytes, decimal, duration

Facts = tuple[tuple[str, str], ...]
"""Names and what is said of them."""


@dataclass(frozen=True, slots=True)
class PassRow:
    """A line of the timeline.

    Attributes:
        number: Of the pass in its stage, from 1.
        name: Of the pass.
        link: To its place in the page.
        changed: Whether it changed the program.
        change: In words.
        time: How long it took; empty if unknown.
        start: Where its bar begins, as a part of the stage.
        part: How long its bar is; None if unknown.
        error: Largest error after it; empty if not measured.
        broken: Whether the pass broke its fidelity.
    """

    number: int
    name: str
    link: str
    changed: bool
    change: str
    time: str
    start: str
    part: str | None
    error: str
    broken: bool


@dataclass(frozen=True, slots=True)
class StageCard:
    """The timeline of one stage."""

    name: str
    summary: str
    verified: bool
    rows: tuple[PassRow, ...]


@dataclass(frozen=True, slots=True)
class PlanCard:
    """What a launch plan is modelled to cost; the headline is its time, or empty."""

    name: str
    headline: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that is shown first; notices are what a reader must not overlook."""

    title: str
    subtitle: str
    notices: tuple[str, ...]
    facts: Facts
    plans: tuple[PlanCard, ...]
    durations: Facts
    stages: tuple[StageCard, ...]


def overview(data: Mapping[str, Any]) -> Overview:
    """Return the overview of what `page_data` returned."""
    facts = data["facts"]
    source = facts.get("source")
    name = PurePath(str(source)).name if source else "model given as a module"
    dtype = facts.get("dtype") or "the checkpoint's own format"
    return Overview(
        title=name,
        subtitle=f"{facts.get('target')} · {dtype} · strategy {facts.get('strategy')}",
        notices=tuple(_notices(data)),
        facts=_facts(facts),
        plans=tuple(_plan_card(stage) for stage in data["stages"] if stage["plan"]),
        durations=_durations(data["timing"]),
        stages=tuple(map(_stage_card, data["stages"])),
    )


def _notices(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reader must not overlook."""
    if data["missing"]:
        last = data["stages"][-1]
        name = last["versions"][-1]["name"]
        yield (
            f"The compilation was stopped after {last['name']} / {name}; "
            f"not reached: {', '.join(data['missing'])}"
        )
    for stage in data["stages"]:
        for version in stage["versions"]:
            if broken := version.get("broken"):
                declared = version.get("fidelity", "otherwise")
                yield f"{stage['name']} / {version['name']} is declared {declared}, but {broken}"


def _facts(facts: Mapping[str, Any]) -> Facts:
    shown = {
        "model": facts.get("source") or "a module, not a directory",
        "target": facts.get("target"),
        "dtype": facts.get("dtype") or "the checkpoint's own",
        "strategy": facts.get("strategy"),
        "limits": _words(facts.get("limits")),
        "verified": _words(facts.get("verify")) or "no",
        "ascendfx": facts.get("ascendfx"),
    }
    known = {*shown, "source", "verify", "stages", "format"}
    more = {key: _words(value) for key, value in facts.items() if key not in known}
    return tuple((key, str(value)) for key, value in (shown | more).items())


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key.replace('_', ' ')} {_words(each)}"
            for key, each in value.items()
            if each is not None
        )
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return "" if value is None else str(value)


def _plan_card(stage: Mapping[str, Any]) -> PlanCard:
    plan, cost = stage["plan"], stage["cost"]
    facts = [
        ("launches", f"{len(plan['launches']):,} of {len(plan['kernels'])} kernels"),
        ("arena", binary_bytes(plan["arena"])),
        ("weights", binary_bytes(plan["places"]["weight"])),
        ("caches", binary_bytes(plan["places"]["cache"])),
        ("capacity", _words(plan["capacities"])),
    ]
    headline = ""
    facts += [
        ("search", f"{words} modelled time against the fixed order of rules")
        for version in stage["versions"]
        if (words := gained_words(version.get("search", {})))
    ]
    if cost:
        total = cost["total"]
        headline = duration(total["microseconds"] * 1e-6)
        facts[1:1] = [
            ("traffic", binary_bytes(total["bytes"])),
            ("operations", decimal(total["operations"])),
            ("step", _words(cost.get("step"))),
            ("largest", _largest(cost["kernels"])),
        ]
    return PlanCard(stage["name"], headline, tuple(facts))


def _largest(kernels: Sequence[Mapping[str, Any]]) -> str:
    spent: dict[str, float] = {}
    for entry in kernels:
        spent[str(entry.get("name"))] = spent.get(str(entry.get("name")), 0) + entry["microseconds"]
    if not spent or not (total := sum(spent.values())):
        return "–"
    name = max(spent, key=lambda each: spent[each])
    return f"{name}, {100 * spent[name] / total:.0f} %"


def _durations(timing: Mapping[str, Any]) -> Facts:
    return tuple(
        (name, duration(value)) for name, value in timing.items() if isinstance(value, int | float)
    )


def _stage_card(stage: Mapping[str, Any]) -> StageCard:
    versions = stage["versions"][1:]
    spent = [each["seconds"][0] if each["seconds"] else None for each in versions]
    known = [each for each in spent if each is not None]
    total = sum(known)
    changed = sum(1 for each in versions if each["changes"])
    summary = f"{len(versions)} passes, {changed} changed the program"
    if known:
        summary += f", {duration(total)}"
    rows: list[PassRow] = []
    start = 0.0
    for number, (version, seconds) in enumerate(zip(versions, spent, strict=True), start=1):
        error = version.get("error")
        rows.append(
            PassRow(
                number=number,
                name=version["name"],
                link=f"#passes/{quote(stage['name'], safe='')}/{number}",
                changed=bool(version["changes"]),
                change=_change(version["changes"]),
                time="" if seconds is None else duration(seconds),
                start=f"{start / total:.4f}" if total else "0",
                part=None if seconds is None or not total else f"{seconds / total:.4f}",
                error=_figure(error["max"]) if error else "",
                broken=bool(version.get("broken")),
            )
        )
        start += seconds or 0.0
    verified = any(row.error for row in rows)
    return StageCard(stage["name"], summary, verified, tuple(rows))


def _change(changes: Sequence[Mapping[str, Any]]) -> str:
    if not changes:
        return "none"
    return f"{len(changes)} function{'s' if len(changes) > 1 else ''}"


def _figure(value: Any) -> str:
    if value == 0:
        return "0"
    return f"{value:.2e}" if isinstance(value, int | float) else str(value)
