"""Turn the nodes of each layer into a function, and equal functions into one.

A layer is an element of an outermost module list. Its nodes are found by the module path that
every node carries; nothing is recognised by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ascendfx.ir.capture.simplify_positions import value_free
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops.call import Call
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param
from ascendfx.ir.program import Program


@dataclass(frozen=True, slots=True)
class Outlined:
    """A program whose layers are functions.

    Attributes:
        program: Entry first, each distinct layer once.
        calls: Position of the call of each layer in the entry graph, by module path.
        remarks: Layers that could not become functions, and why.
    """

    program: Program
    calls: Mapping[str, int]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Function:
    body: Graph
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    keys: tuple[tuple[str, str], ...]


def outline_layers(graph: Graph, lists: Sequence[str]) -> Outlined:
    """Return the program of a flat graph.

    Args:
        graph: The flat graph.
        lists: Paths of the module lists whose elements become functions.
    """
    free = value_free(graph)
    layers = _members(graph, lists, free)
    functions = {path: _function(graph, path, nodes, free) for path, nodes in layers.items()}
    remarks: list[str] = []
    while True:
        main, calls, blocked = _entry(graph, layers, functions)
        if blocked is None:
            break
        del layers[blocked], functions[blocked]
        remarks.append(f"layer `{blocked}` stays in the entry: its results are used inside of it")
    names, bodies = _merged(functions)
    main = _renamed_calls(main, names)
    kept = main.part(main.outputs, keep=main.inputs)
    positions = _positions(main, kept, calls)
    return Outlined(Program((kept, *bodies)), positions, tuple(remarks))


def layer_of(module: str, lists: Sequence[str]) -> str:
    """Return the path of the list element that a module path is in, or nothing."""
    for path in lists:
        head = f"{path}." if path else ""
        index = module.removeprefix(head).split(".", 1)[0]
        if module.startswith(head) and index.isdecimal():
            return head + index
    return ""


def _members(graph: Graph, lists: Sequence[str], free: Sequence[bool]) -> dict[str, list[int]]:
    """Return the positions of each layer's nodes; leaves and value-free nodes belong to none.

    A call stands for a layer that was not traced, see `shorten_layers`.
    """
    members: dict[str, list[int]] = {}
    for position, node in enumerate(graph.nodes):
        layer = layer_of(node.location.module, lists)
        if layer and node.operands and not free[position] and not isinstance(node.op, Call):
            members.setdefault(layer, []).append(position)
    return members


def _function(graph: Graph, path: str, nodes: list[int], free: Sequence[bool]) -> _Function:
    inside = frozenset(nodes)
    read = [v for position in nodes for v in graph.nodes[position].operands]
    inputs = tuple(
        dict.fromkeys(
            v
            for v in read
            if v.node not in inside and not free[v.node] and not isinstance(graph.op_of(v), Param)
        )
    )
    copy = _Copy(graph, path, inputs)
    for position in nodes:
        copy.visit(position)
    outputs = tuple(
        Value(position, i)
        for position in nodes
        for i in range(len(graph.nodes[position].types))
        if _read_outside(graph, Value(position, i), inside)
    )
    body = copy.builder.build(*(copy.moved[v] for v in outputs))
    formal = [body.nodes[v.node].op for v in body.params]
    keys = tuple((op.name, copy.keys[op.name]) for op in formal if isinstance(op, Param))
    return _Function(body, inputs, outputs, keys)


def _read_outside(graph: Graph, value: Value, inside: frozenset[int]) -> bool:
    readers = graph.uses.get(value, ())
    return value in graph.outputs or any(position not in inside for position in readers)


class _Copy:
    """Copies a layer's nodes; what they read becomes input, parameter, or is copied as well."""

    def __init__(self, graph: Graph, path: str, inputs: tuple[Value, ...]) -> None:
        self._graph = graph
        self._head = f"{path}."
        self.builder = GraphBuilder("layer")
        self.moved: dict[Value, Value] = {
            v: self.builder.leaf(Input(f"x{i}", graph.type_of(v))) for i, v in enumerate(inputs)
        }
        self.keys: dict[str, str] = {}

    def visit(self, position: int) -> None:
        if Value(position) in self.moved:
            return
        node = self._graph.nodes[position]
        if isinstance(node.op, Param):
            formal = node.op.name.removeprefix(self._head)
            self.keys[formal] = node.op.name
            self.moved[Value(position)] = self.builder.leaf(Param(formal, node.op.type))
            return
        for operand in node.operands:
            if operand not in self.moved:
                self.visit(operand.node)
        with self.builder.at(node.location):
            operands = tuple(self.moved[v] for v in node.operands)
            results = self.builder.add_multi(node.op, *operands)
        self.moved.update((Value(position, i), result) for i, result in enumerate(results))


def _entry(
    graph: Graph, layers: Mapping[str, list[int]], functions: Mapping[str, _Function]
) -> tuple[Graph, dict[str, int], str | None]:
    """Build the entry; the last result is a layer that something in its midst reads, if any."""
    owner = {position: path for path, nodes in layers.items() for position in nodes}
    builder = GraphBuilder(graph.name)
    moved: dict[Value, Value] = {}
    calls: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        path = owner.get(position)
        if path is None:
            wanted, op, produced = node.operands, node.op, _results(position, node)
        elif position == layers[path][-1]:
            function = functions[path]
            types = tuple(map(graph.type_of, function.outputs))
            wanted, produced = function.inputs, function.outputs
            op = Call(path, types, function.keys)
        else:
            continue
        missing = [v for v in wanted if v not in moved]
        if missing:
            return graph, {}, path or owner[missing[0].node]
        with builder.at(node.location):
            results = builder.add_multi(op, *(moved[v] for v in wanted))
        if path is not None:
            calls[path] = results[0].node
        moved.update(zip(produced, results, strict=True))
    return builder.build(*(moved[v] for v in graph.outputs)), calls, None


def _results(position: int, node: Node) -> tuple[Value, ...]:
    return tuple(Value(position, i) for i in range(len(node.types)))


def _merged(functions: Mapping[str, _Function]) -> tuple[dict[str, str], list[Graph]]:
    """Return the name of each layer's function, and the distinct functions."""
    known: dict[Graph, str] = {}
    names: dict[str, str] = {}
    for path, function in functions.items():
        names[path] = known.setdefault(function.body, f"layer_{len(known)}")
    return names, [replace(body, name=name) for body, name in known.items()]


def _renamed_calls(main: Graph, names: Mapping[str, str]) -> Graph:
    nodes = tuple(
        replace(node, op=replace(node.op, callee=names[node.op.callee]))
        if isinstance(node.op, Call) and node.op.callee in names
        else node
        for node in main.nodes
    )
    return Graph(main.name, nodes, main.outputs)


def _positions(main: Graph, kept: Graph, calls: Mapping[str, int]) -> dict[str, int]:
    """Return where the calls are after unread nodes have gone; the order stays."""
    before = [p for p, node in enumerate(main.nodes) if isinstance(node.op, Call)]
    after = [p for p, node in enumerate(kept.nodes) if isinstance(node.op, Call)]
    if len(before) != len(after):
        raise AssertionError("a layer without readers is not in the graph in the first place")
    moved = dict(zip(before, after, strict=True))
    return {path: moved[position] for path, position in calls.items()}
