"""Call the tensors and modules of a program by other names."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.ops.call import Call
from ascendfx.ir.ops.param import Param
from ascendfx.ir.program import Program


def rename_paths(
    program: Program, key: Callable[[str], str], path: Callable[[str], str]
) -> Program:
    """Return the program with other checkpoint keys and other module paths in its locations.

    Args:
        program: Calls functions only in its entry.
        key: New key of a tensor.
        path: New path of a module.
    """

    def located(node: Node) -> Node:
        place = node.location
        return replace(node, location=replace(place, module=path(place.module)))

    def renamed(node: Node) -> Node:
        match node.op:
            case Param(name=name):
                return replace(node, op=replace(node.op, name=key(name)))
            case Call(keys=keys):
                table = tuple((formal, key(name)) for formal, name in keys)
                return replace(node, op=replace(node.op, keys=table))
            case _:
                return node

    main, *others = program.graphs
    entry = replace(main, nodes=tuple(located(renamed(node)) for node in main.nodes))
    functions = (Graph(g.name, tuple(map(located, g.nodes)), g.outputs) for g in others)
    return Program((entry, *functions), program.recipes)


def moved_path(path: str, table: Mapping[str, str]) -> str:
    """Return a dotted path with its head replaced; the first head in ``table`` that fits counts."""
    for head, other in table.items():
        if path == head or path.startswith(f"{head}."):
            return other + path.removeprefix(head)
    return path
