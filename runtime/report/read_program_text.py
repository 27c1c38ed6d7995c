"""The text form of a program, line by line, without knowing its operations.

`ascendfx.ir.text.parser` checks every type and refuses operations it does not know. A report also
has to show dumps of programs that are wrong, or that hold operations of a user; it only needs to
know which line reads which.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN, Location

Value = tuple[int, int]
"""Position of a node, and which of its results."""

_HEAD = re.compile(r'(?:graph @(?P<graph>.+?)|recipe @(?P<owner>\S+) "(?P<name>.*)") \{')
_NODE = re.compile(
    r"%(?P<at>\d+) = (?P<op>\w+)"
    r'(?: "(?P<name>.*)"(?= : )|(?P<operands>(?: %\d+(?:\.\d+)?,?)*)(?: (?P<attributes>\{.*\}))?)'
    r" : (?P<types>[^{}]+)"
)
_RETURN = re.compile(r"return(?P<operands>(?: %\d+(?:\.\d+)?,?)*)")
_VALUE = re.compile(r"%(\d+)(?:\.(\d+))?")
_SOURCE = re.compile(r"// source (?P<short>\S+) = (?P<file>.+)")
_PLACE = re.compile(r"// (?P<short>\S+):(?P<line>\d{1,9})(?: in (?P<module>\S+))?")


@dataclass(frozen=True, slots=True)
class Body:
    """What a line says apart from numbers of values; equal bodies compute the same.

    Attributes:
        op: The mnemonic.
        name: Of an input or parameter; empty otherwise.
        attributes: In braces; empty if there are none.
        types: Of the results.
    """

    op: str
    name: str
    attributes: str
    types: str


@dataclass(frozen=True, slots=True)
class TextNode:
    """One line.

    Attributes:
        body: What it says.
        operands: The values it reads.
        place: The line of the model that asked for it; not part of equality.
    """

    body: Body
    operands: tuple[Value, ...]
    place: Location = field(default=UNKNOWN, compare=False)


@dataclass(frozen=True, slots=True)
class TextGraph:
    """A graph, or the recipe of a parameter.

    Attributes:
        name: Of the graph; ``graph "parameter"`` for a recipe.
        nodes: In order.
        outputs: What it returns.
    """

    name: str
    nodes: tuple[TextNode, ...]
    outputs: tuple[Value, ...]


def read_program_text(text: str, *, file: Path) -> tuple[TextGraph, ...]:
    """Return the graphs of ``text``.

    Raises:
        GraphError: A line is not part of the text form, or the text ends within a graph.
    """
    reader = _Reader(file)
    for number, line in enumerate(text.split("\n"), start=1):
        if stripped := line.strip():
            reader.read(number, stripped)
    return reader.finished()


class _Reader:
    """Takes one line after the other.

    The words of a comment hold until the next one; within a graph they start as unknown, as
    `ascendfx.ir.text.located` writes them.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._number = 1
        self._line = ""
        self._files: dict[str, str] = {UNKNOWN.file: UNKNOWN.file}
        self._graphs: list[TextGraph] = []
        self._name: str | None = None
        self._nodes: list[TextNode] = []
        self._outputs: tuple[Value, ...] | None = None
        self._place = UNKNOWN

    def read(self, number: int, line: str) -> None:
        self._number, self._line = number, line
        if line.startswith("//"):
            self._comment(line)
        elif self._name is None:
            self._begin(line)
        elif self._outputs is not None:
            self._end(line)
        elif found := _RETURN.fullmatch(line):
            self._outputs = self._values(found["operands"])
        elif (found := _NODE.fullmatch(line)) and int(found["at"]) == len(self._nodes):
            body = Body(
                op=found["op"],
                name=found["name"] or "",
                attributes=found["attributes"] or "",
                types=found["types"],
            )
            operands = self._values(found["operands"] or "")
            self._nodes.append(TextNode(body, operands, self._place))
        else:
            raise self._error()

    def finished(self) -> tuple[TextGraph, ...]:
        if self._name is not None or not self._graphs:
            raise self._error()
        return tuple(self._graphs)

    def _comment(self, line: str) -> None:
        if found := _SOURCE.fullmatch(line):
            self._files[found["short"]] = found["file"]
        elif found := _PLACE.fullmatch(line):
            file = self._files.get(found["short"], found["short"])
            self._place = Location(file, int(found["line"]), found["module"] or "")

    def _begin(self, line: str) -> None:
        head = _HEAD.fullmatch(line)
        if head is None:
            raise self._error()
        self._name = head["graph"] or f'{head["owner"]} "{head["name"]}"'
        self._nodes, self._outputs, self._place = [], None, UNKNOWN

    def _end(self, line: str) -> None:
        if line != "}" or self._name is None or self._outputs is None:
            raise self._error()
        self._graphs.append(TextGraph(self._name, tuple(self._nodes), self._outputs))
        self._name = None

    def _values(self, text: str) -> tuple[Value, ...]:
        values = tuple((int(node), int(result or 0)) for node, result in _VALUE.findall(text))
        if any(node >= len(self._nodes) for node, _ in values):
            raise self._error()
        return values

    def _error(self) -> GraphError:
        return GraphError(
            code="damaged-dump",
            reason="this is not the text form of a program, or it ends too early",
            location=Location(str(self._file), self._number),
            excerpt=self._line[:200],
            hint="compile the model again",
        )
