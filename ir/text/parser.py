"""Text to program."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.location import Location
from ascendfx.ir.op import Op
from ascendfx.ir.ops import OPS, Call, Constant, Input, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType
from ascendfx.ir.text.attribute_types import attribute_types, fits
from ascendfx.ir.text.literal import GRAMMAR, LiteralReader, read_types

_GRAPH = re.compile(r"graph @(?P<name>[\w.-]+) \{")
_RECIPE = re.compile(r'recipe @(?P<graph>[\w.-]+) "(?P<name>[^"]*)" \{')
_NUMBER = "[0-9]{1,9}"
"""Position of a node, or number of a result."""
_VALUE = re.compile(rf"%({_NUMBER})(?:\.({_NUMBER}))?")
_ONE = rf"%{_NUMBER}(?:\.{_NUMBER})?"
_OPERANDS = rf"(?P<operands>(?: {_ONE}(?:, {_ONE})*)?)"
_NODE = re.compile(
    rf'%(?P<at>{_NUMBER}) = (?P<op>\w+)(?: "(?P<name>[^"]*)")?{_OPERANDS}'
    r"(?: \{(?P<attributes>.*)\})? : (?P<types>.+)"
)
_RETURN = re.compile(f"return{_OPERANDS}")
_BY_MNEMONIC: Mapping[str, type[Op]] = {op.mnemonic: op for op in OPS}


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    place: Location


def parse_program(text: str, *, file: str = "<text>") -> Program:
    """Read the text form back; lines that start with ``//`` are ignored.

    Raises:
        GraphError: The text is malformed, names an unknown operation, or states a type that the
            operation does not produce. The location is the line of ``text``.
    """
    lines = _lines(text, file)
    graphs: list[Graph] = []
    recipes: dict[tuple[str, str], Graph] = {}
    for line in lines:
        if head := _RECIPE.fullmatch(line.text):
            key = (head["graph"], head["name"])
            if key in recipes:
                raise GraphError(
                    "syntax",
                    f"the recipe of `{key[1]}` in @{key[0]} is given twice",
                    line.place,
                    line.text,
                    hint="leave one of them",
                )
            recipes[key] = _parse_body(head["name"], lines)
        else:
            head = _expect(_GRAPH, line)
            graphs.append(_parse_body(head["name"], lines))
    if not graphs:
        raise GraphError(
            "syntax",
            "the text holds no graph",
            Location(file, 1),
            hint=GRAMMAR,
        )
    return Program(tuple(graphs), recipes)


def _lines(text: str, file: str) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), start=1):
        if (stripped := line.strip()) and not stripped.startswith("//"):
            yield _Line(stripped, Location(file, number))


def _parse_body(name: str, lines: Iterator[_Line]) -> Graph:
    builder = GraphBuilder(name)
    outputs: tuple[Value, ...] | None = None
    count = 0
    last = Location("<text>", 0)
    for line in lines:
        last = line.place
        if line.text == "}":
            if outputs is None:
                break
            return builder.build(*outputs)
        if outputs is not None:
            raise GraphError(
                "syntax",
                "nothing may follow `return`",
                line.place,
                line.text,
                hint=GRAMMAR,
            )
        if line.text.startswith("return"):
            found = _expect(_RETURN, line)
            outputs = _values(found["operands"], builder, count, line)
        else:
            _parse_node(builder, count, line)
            count += 1
    raise GraphError(
        "syntax",
        f"graph @{name} does not end with `return` and `}}`",
        last,
        hint=GRAMMAR,
    )


def _parse_node(builder: GraphBuilder, position: int, line: _Line) -> None:
    found = _expect(_NODE, line)
    if int(found["at"]) != position:
        raise GraphError(
            "syntax",
            f"node %{position} was expected",
            line.place,
            line.text,
            hint=GRAMMAR,
        )
    stated = read_types(found["types"], line.place)
    op = _parse_op(found, stated, line)
    operands = _values(found["operands"], builder, position, line)
    with builder.at(line.place):
        results = _add(builder, op, operands, line)
    inferred = tuple(map(builder.type_of, results))
    if inferred != stated:
        shown = [", ".join(map(str, each)) for each in (inferred, stated)]
        raise GraphError(
            code="stated-type",
            reason=f"{op.mnemonic} produces {shown[0]}, but {shown[1]} was stated",
            location=line.place,
            excerpt=line.text,
            hint=f"state {shown[0]}, or correct operands or attributes",
        )


def _add(
    builder: GraphBuilder, op: Op, operands: tuple[Value, ...], line: _Line
) -> tuple[Value, ...]:
    """Add a node; rules of types assume the number of operands, which a text may have wrong."""
    try:
        return builder.add_multi(op, *operands)
    except (TypeError, ValueError, IndexError) as error:
        reason = f"{op.mnemonic} cannot have these operands and attributes: {error}"
        raise GraphError(
            "syntax",
            reason,
            line.place,
            line.text,
            hint=GRAMMAR,
        ) from error


def _parse_op(found: re.Match[str], stated: tuple[TensorType, ...], line: _Line) -> Op:
    kind = _BY_MNEMONIC.get(found["op"])
    if kind is None:
        raise GraphError(
            code="unknown-operation",
            reason=f"no operation is called `{found['op']}`",
            location=line.place,
            hint=f"known: {', '.join(sorted(_BY_MNEMONIC))}",
        )
    if kind in (Input, Param):
        if found["name"] is None or len(stated) != 1:
            raise GraphError(
                "syntax",
                f"{found['op']} needs a quoted name",
                line.place,
                line.text,
                hint=GRAMMAR,
            )
        return kind(found["name"], stated[0])  # pyright: ignore[reportCallIssue]
    values = LiteralReader(found["attributes"] or "", line.place).attributes()
    if kind is Call:
        values["types"] = stated
    known = {field.name for field in fields(kind)}
    if unknown := values.keys() - known:
        raise GraphError(
            code="unknown-attribute",
            reason=f"{found['op']} has no attribute `{min(unknown)}`",
            location=line.place,
            hint=f"known: {', '.join(sorted(known))}" if known else "",
        )
    wrong = [name for name, each in values.items() if not fits(each, attribute_types(kind)[name])]
    if wrong:
        reason = f"{found['op']}: attribute `{wrong[0]}` is of another type"
        raise GraphError(
            "syntax",
            reason,
            line.place,
            line.text,
            hint=GRAMMAR,
        )
    try:
        op = kind(**values)
    except (TypeError, ValueError) as error:
        raise GraphError(
            "syntax",
            f"{found['op']}: {error}",
            line.place,
            line.text,
            hint=GRAMMAR,
        ) from error
    if isinstance(op, Constant) and op.fault and not _is_fraction(op):
        raise GraphError("syntax", f"constant: {op.fault}", line.place, line.text, hint=GRAMMAR)
    return op


def _is_fraction(op: Constant) -> bool:
    """Say whether `verify_program` is what refuses a constant: rules may be tried on such texts."""
    if op.dtype.is_float or not math.isfinite(op.value):
        return False
    return op.value != int(op.value)


def _values(text: str, builder: GraphBuilder, count: int, line: _Line) -> tuple[Value, ...]:
    values = tuple(Value(int(node), int(result or 0)) for node, result in _VALUE.findall(text))
    for value in values:
        if value.node >= count or value.result >= len(builder.results_of(value.node)):
            raise GraphError(
                "syntax",
                f"%{value.node} is not defined here",
                line.place,
                line.text,
                hint=GRAMMAR,
            )
    return values


def _expect(pattern: re.Pattern[str], line: _Line) -> re.Match[str]:
    if found := pattern.fullmatch(line.text):
        return found
    raise GraphError(
        "syntax",
        "this line is not part of the text form",
        line.place,
        line.text,
        hint=GRAMMAR,
    )
