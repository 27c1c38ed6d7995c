"""Program to text."""

import dataclasses
import math
from collections.abc import Iterable, Iterator

import sympy

from ascendfx.ir.graph import Graph, Node, Value, print_value
from ascendfx.ir.op import Op
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType


def print_program(program: Program) -> str:
    """Return the text form; `parse_program` restores the program exactly, locations aside."""
    parts = [print_graph(graph) for graph in program.graphs]
    for (graph, name), recipe in program.recipes.items():
        parts.append("\n".join(_body(f'recipe @{graph} "{name}"', recipe)) + "\n")
    return "\n".join(parts)


def print_graph(graph: Graph) -> str:
    """Return the text form of one graph; locations are not part of it."""
    return "\n".join(_body(f"graph @{graph.name}", graph)) + "\n"


def print_node(graph: Graph, position: int) -> str:
    """Return the line of one node, for excerpts and remarks."""
    return f"%{position} = {_expression(graph.nodes[position])}"


def _body(head: str, graph: Graph) -> Iterator[str]:
    yield f"{head} {{"
    for position, node in enumerate(graph.nodes):
        yield f"  %{position} = {_expression(node)}"
    yield "  return " + ", ".join(map(print_value, graph.outputs))
    yield "}"


def _expression(node: Node) -> str:
    types = ", ".join(map(str, node.types))
    match node.op:
        case Input(name=name) | Param(name=name):
            return f'{node.op.mnemonic} "{name}" : {types}'
        case op:
            return f"{print_operation(op, node.operands)} : {types}"


def print_operation(op: Op, operands: Iterable[Value]) -> str:
    """Return an operation with its operands and attributes, without types."""
    values = "".join(f" {print_value(v)}," for v in operands).rstrip(",")
    return f"{op.mnemonic}{values}{_attributes(op)}"


def _attributes(op: Op) -> str:
    shown = [
        f"{field.name}={print_literal(value)}"
        for field in dataclasses.fields(op)
        if not _is_default(value := getattr(op, field.name), field.default)
        and field.name != "types"
    ]
    return f" {{{', '.join(shown)}}}" if shown else ""


def _is_default(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def print_literal(value: object) -> str:
    """Return the text of an attribute: number, truth value, name, format, size, type or list."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if math.isinf(value) or math.isnan(value):
            return str(value)
        case int() | float():
            return repr(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case DType():
            return value.value
        case TensorType():
            return str(value)
        case sympy.Expr():
            return f"<{value}>"
        case tuple():
            return "[" + ", ".join(map(print_literal, value)) + "]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            raise AssertionError(f"attributes cannot hold {type(value)}")
