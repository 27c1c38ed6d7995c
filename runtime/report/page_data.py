"""A dump as the data of its page: plain values, every text and graph once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.runtime.report.diff_graphs import diff_graphs
from ascendfx.runtime.report.pass_seconds import pass_seconds
from ascendfx.runtime.report.plan_data import plan_data
from ascendfx.runtime.report.read_program_text import Body, TextGraph, Value
from ascendfx.runtime.report.read_whole_dump import Stage, Version, WholeDump
from ascendfx.runtime.report.search_gain import search_gain
from ascendfx.runtime.report.source_lines import source_lines
from ascendfx.runtime.report.table import Table


@dataclass
class Tables:
    """What graphs, plans and remarks share.

    Attributes:
        bodies: ``[op, name, attributes, types]``.
        places: ``[file, line, module]``.
        graphs: ``{"name", "nodes": [[body, place or -1, value, ...]], "outputs": [value]}``;
            a value is a node's number, or ``[node, result]`` for later results.
    """

    bodies: Table = field(default_factory=Table)
    places: Table = field(default_factory=Table)
    graphs: Table = field(default_factory=Table)

    def graph(self, graph: TextGraph) -> int:
        """Return the number of a graph; equal graphs from other places are other entries."""
        nodes = [
            [self._body(node.body), self._place(node.place), *map(plain_value, node.operands)]
            for node in graph.nodes
        ]
        key = (graph, tuple(node[1] for node in nodes))
        outputs = [*map(plain_value, graph.outputs)]
        return self.graphs.number(key, {"name": graph.name, "nodes": nodes, "outputs": outputs})

    def _body(self, body: Body) -> int:
        return self.bodies.number(body, [body.op, body.name, body.attributes, body.types])

    def _place(self, place: Location) -> int:
        if place.file == UNKNOWN.file:
            return -1
        return self.places.number(place, [place.file, place.line, place.module])


def page_data(dump: WholeDump) -> dict[str, Any]:
    """Return everything the page shows except the texts of kernels; see `kernel_texts`.

    The result holds only what JSON has, and depends on nothing but the dump and the files of the
    model's source that are readable here.
    """
    tables = Tables()
    stages = [_stage(stage, dump, tables) for stage in dump.stages]
    places: Sequence[Sequence[Any]] = tables.places.values
    sources = source_lines((file, line) for file, line, _ in places)
    return {
        "facts": plain(dump.facts),
        "timing": plain({k: v for k, v in dump.timing.items() if k != "passes"}),
        "bodies": tables.bodies.values,
        "places": tables.places.values,
        "graphs": tables.graphs.values,
        "stages": stages,
        "missing": list(dump.missing),
        "sources": {
            file: [[run.first, list(run.lines)] for run in runs] for file, runs in sources.items()
        },
    }


def kernel_texts(dump: WholeDump) -> dict[str, dict[str, str]]:
    """Return the text of each kernel by stage and name."""
    return {stage.name: dict(stage.kernels) for stage in dump.stages if stage.kernels}


def plain_value(value: Value) -> int | list[int]:
    """Return the short form of a value."""
    node, result = value
    return [node, result] if result else node


def plain(value: Any) -> Any:
    """Return ``value`` with what JSON has no word for as text: numbers that are not finite."""
    match value:
        case float() if not isfinite(value):
            return str(value)
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [plain(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _stage(stage: Stage, dump: WholeDump, tables: Tables) -> dict[str, Any]:
    numbers = [[tables.graph(graph) for graph in version.graphs] for version in stage.versions]
    seconds = pass_seconds(dump.timing, stage)
    versions = [
        {
            "file": version.file,
            "name": version.name,
            "graphs": numbers[index],
            "seconds": seconds[index],
            "changes": _changes(
                stage.versions[index - 1 : index + 1], numbers[index - 1 : index + 1]
            )
            if index
            else [],
            **_said(version),
        }
        for index, version in enumerate(stage.versions)
    ]
    plan = stage.plan
    return {
        "name": stage.name,
        "versions": versions,
        "plan": plan_data(plan, stage.versions[-1].graphs) if plan else None,
        "cost": plain(stage.cost),
    }


def _said(version: Version) -> dict[str, Any]:
    keys = ("fidelity", "parameters", "remarks", "error", "broken")
    gain, others = search_gain(plain(version.record.get("statistics", {})))
    said = {key: plain(version.record[key]) for key in keys if version.record.get(key)}
    return said | ({"statistics": others} if others else {}) | ({"search": gain} if gain else {})


def _changes(versions: Sequence[Version], numbers: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return the graphs that a pass changed, made or dropped."""
    before, after = versions
    old = {
        graph.name: (graph, number) for graph, number in zip(before.graphs, numbers[0], strict=True)
    }
    new = {
        graph.name: (graph, number) for graph, number in zip(after.graphs, numbers[1], strict=True)
    }
    changes: list[dict[str, Any]] = []
    for name in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            changes.append(
                {"name": name, "before": was and was[1], "after": now and now[1], "runs": []}
            )
        elif was[0] != now[0]:
            diff = diff_graphs(was[0], now[0])
            changes.append(
                {
                    "name": name,
                    "before": was[1],
                    "after": now[1],
                    "runs": _runs(diff.same),
                    "edited": [list(pair) for pair in diff.edited],
                    "outputs": diff.outputs_same,
                }
            )
    return changes


def _runs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return ``[before, after, length]`` of each run of pairs that follow each other."""
    runs: list[list[int]] = []
    for i, j in pairs:
        if runs and (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]) == (i, j):
            runs[-1][2] += 1
        else:
            runs.append([i, j, 1])
    return runs
