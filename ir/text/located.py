"""The text form with the lines of the model: comments that name the place of what follows."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from ascendfx.ir.graph import Graph
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.portable_path import shown_file
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program

_SOURCE = re.compile(r"// source (?P<short>\S+) = (?P<file>.+)")
_PLACE = re.compile(r"// (?P<short>\S+):(?P<line>[0-9]{1,9})(?: in (?P<module>\S+))?")
_NODE = re.compile(r"%[0-9]+ = ")


def print_located(program: Program, *, portable: bool = False) -> str:
    """Return the text form; a comment before a run of nodes says where the model asked for them.

    Names of files are short; the lines ``// source short = path`` at the top explain them. Comments
    are no part of the text form: `parse_program` skips them.

    Args:
        program: The program.
        portable: Name files as `Location.portable` does, for a text that goes to other machines.
    """
    graphs = (*program.graphs, *program.recipes.values())
    files = sorted({node.location.file for graph in graphs for node in graph.nodes})
    short = _short_names([file for file in files if file != UNKNOWN.file])
    shown = shown_file if portable else str
    lines = [f"// source {name} = {shown(file)}" for file, name in short.items()]
    short[UNKNOWN.file] = UNKNOWN.file
    places = iter([[node.location for node in graph.nodes] for graph in graphs])
    lines += _with_places(print_program(program).splitlines(), places, short)
    return "\n".join(lines) + "\n"


def parse_located(text: str, *, file: str = "<text>") -> Program:
    """Read the text form back; nodes have the places that the comments name, if there are any.

    Raises:
        GraphError: As `parse_program`.
    """
    program = parse_program(text, file=file)
    if not _PLACE.search(text):
        return program
    places = list(_read_places(text))
    of_graphs = iter([each for recipe, each in places if not recipe])
    of_recipes = iter([each for recipe, each in places if recipe])
    graphs = tuple(_located(graph, of_graphs) for graph in program.graphs)
    recipes = {key: _located(graph, of_recipes) for key, graph in program.recipes.items()}
    return Program(graphs, recipes)


def _short_names(files: list[str]) -> dict[str, str]:
    """Return a distinct name without spaces for each path."""
    taken: dict[str, int] = {}
    short: dict[str, str] = {}
    for file in files:
        name = re.sub(r"\s", "_", PurePath(file).name) or "_"
        taken[name] = taken.get(name, 0) + 1
        short[file] = name if taken[name] == 1 else f"{name}~{taken[name]}"
    return short


def _with_places(
    lines: list[str], places: Iterator[list[Location]], short: dict[str, str]
) -> Iterator[str]:
    inside: Iterator[Location] = iter(())
    last: Location | None = None
    for line in lines:
        if line.endswith("{") and not line.startswith(" "):
            inside, last = iter(next(places)), UNKNOWN
        elif _NODE.match(line.strip()):
            place = next(inside)
            if place != last:
                suffix = f" in {place.module}" if place.module else ""
                yield f"  // {short[place.file]}:{place.line}{suffix}"
                last = place
        yield line


def _read_places(text: str) -> Iterator[tuple[bool, list[Location]]]:
    """Return for each body of the text whether it is a recipe's, and the places of its nodes."""
    files: dict[str, str] = {}
    current: list[Location] = []
    recipe, place = False, UNKNOWN
    for line in map(str.strip, text.splitlines()):
        if line.startswith(("graph @", "recipe @")):
            current, recipe, place = [], line.startswith("recipe"), UNKNOWN
        elif found := _SOURCE.fullmatch(line):
            files[found["short"]] = found["file"]
        elif found := _PLACE.fullmatch(line):
            short = found["short"]
            place = Location(files.get(short, short), int(found["line"]), found["module"] or "")
        elif _NODE.match(line):
            current.append(place)
        elif line == "}":
            yield recipe, current


def _located(graph: Graph, places: Iterator[list[Location]]) -> Graph:
    nodes = tuple(
        replace(node, location=place) for node, place in zip(graph.nodes, next(places), strict=True)
    )
    return Graph(graph.name, nodes, graph.outputs)
