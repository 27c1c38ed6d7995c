"""A graph of tensors, as a compiler backend of PyTorch receives it, to a graph of ours."""

from collections.abc import Collection
from typing import Any

from torch.fx import GraphModule, Node

from ascendfx.ir.capture.locate import location_of_node
from ascendfx.ir.capture.translation import Translation
from ascendfx.ir.capture.visit_calls import CallVisitor
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param


def translate_function(module: GraphModule, varying: Collection[str], name: str) -> Graph:
    """Return the graph of a functional ATen module with static shapes.

    A placeholder is an input or a parameter under its own name; locations carry the name of the
    call as their module path, so that a refusal leads back to it.

    Args:
        module: Calls of ATen overloads only, with fake tensors in ``meta["val"]``.
        varying: Placeholders that are inputs; the others are parameters.
        name: Of the graph.

    Raises:
        GraphError: An operation has no translation, a size is not known, or a builder fails.
    """
    t = Translation(GraphBuilder(name), {})
    calls = CallVisitor(t, location_of_call)
    results: tuple[Any, ...] = ()
    for node in module.graph.nodes:
        match node.op:
            case "placeholder":
                t.overload, t.location = f"placeholder {node.name}", location_of_call(node)
                kind = t.type_of_meta(node.meta["val"])
                op = Input(node.name, kind) if node.name in varying else Param(node.name, kind)
                calls.values[node] = t.builder.leaf(op)
            case "call_function":
                try:
                    calls.call(node)
                except GraphError:
                    raise
                except Exception as error:
                    raise internal_error(error, location_of_call(node)) from error
            case "output":
                found = node.args[0]
                results = tuple(found) if isinstance(found, list | tuple) else (found,)
            case _:
                raise GraphError(
                    "unsupported-operation",
                    f"`{node.format_node()}` is no call of an operation",
                    location_of_call(node),
                    hint="such a part of the graph runs as it is",
                )
    return t.builder.build(*(t.whole(calls.values[node]) for node in results))


def internal_error(error: Exception, location: Location = UNKNOWN) -> GraphError:
    """Return the error that says that the compiler itself is at fault."""
    found = GraphError(
        "internal-error",
        f"a mistake of ascendfx: {type(error).__name__}: {error}",
        location,
        hint="report it, with the lines of the model and the traceback",
    )
    found.__cause__ = error
    return found


def location_of_call(node: Node) -> Location:
    """Return the line of the model and the name of the call."""
    found = location_of_node(node.meta, "")
    return Location(found.file, found.line, node.name)
