"""Where transforms go in a graph: by what stands there, not by names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import (
    Attention,
    Cast,
    GatherRows,
    GroupedLinear,
    Linear,
    Param,
    Reshape,
    RmsNorm,
    RouteTopk,
    Slice,
    Swiglu,
)

Kind = Literal["stream", "latent", "values", "up"]


@dataclass(frozen=True, slots=True)
class Place:
    """A value between what makes its channels and what reads them.

    Attributes:
        kind: As in `Choices`.
        value: The value.
        name: The parameter that the transform is named by: the gain of a norm; else the weight
            behind it.
        shape: Of the factors: channels, those of heads, or those of experts.
        readers: The weights that read it, by their names in the graph; routers too.
    """

    kind: Kind
    value: Value
    name: str
    shape: tuple[int, ...]
    readers: tuple[str, ...]


def places_of(graph: Graph) -> tuple[Place, ...]:
    """Return the places of a graph, in the order of its nodes."""
    return tuple(_places(graph))


def _places(graph: Graph) -> Iterator[Place]:
    for position, node in enumerate(graph.nodes):
        found = None
        if isinstance(node.op, RmsNorm):
            found = _norm(graph, position, node)
        elif isinstance(node.op, Attention):
            found = _values(graph, position, node)
        elif isinstance(node.op, Swiglu):
            found = _up(graph, position)
        if found:
            yield found


def _norm(graph: Graph, position: int, node: Node) -> Place | None:
    gain = graph.op_of(node.operands[1])
    value = Value(position)
    readers = projections_of(graph, value)
    if not isinstance(gain, Param) or not readers:
        return None
    kind = "latent" if _is_projected(graph, node.operands[0]) else "stream"
    return Place(kind, value, gain.name, _numbers(gain.type.shape), readers)


def _values(graph: Graph, position: int, node: Node) -> Place | None:
    value = Value(position)
    readers = projections_of(graph, value)
    if not readers or not isinstance(node.op, Attention) or node.op.parts != 2:  # as the rules
        return None
    shape = node.types[0].shape[-2:]
    same_heads = graph.type_of(node.operands[4]).shape[-2:] == shape
    return Place("values", value, readers[0], _numbers(shape), readers) if same_heads else None


def _up(graph: Graph, position: int) -> Place | None:
    value = Value(position)
    readers = projections_of(graph, value)
    if len(readers) != 1:
        return None
    (reader,) = graph.uses[value]
    node = graph.nodes[reader]
    weight = graph.type_of(node.operands[1]).shape
    experts = isinstance(node.op, GroupedLinear)
    shape = (weight[0], weight[2]) if experts else (weight[1],)
    return Place("up", value, readers[0], _numbers(shape), readers)


def projections_of(graph: Graph, value: Value) -> tuple[str, ...]:
    """Return the weights that multiply the rows of a value, wherever these are moved to.

    Nothing if something else reads them.
    """
    found: list[str] = []
    pending = [value]
    while pending:
        read = pending.pop()
        if read in graph.outputs:
            return ()
        for position in graph.uses.get(read, ()):
            node = graph.nodes[position]
            if isinstance(node.op, Reshape | Cast) or (
                isinstance(node.op, GatherRows) and node.operands[0] == read
            ):
                pending.append(Value(position))
                continue
            if not isinstance(node.op, Linear | GroupedLinear) or node.operands[0] != read:
                return ()
            weight = graph.op_of(node.operands[1])
            if not isinstance(weight, Param):
                return ()
            found.append(weight.name)
    return tuple(dict.fromkeys(found))


def routers_of(graph: Graph) -> Iterator[tuple[str, Node]]:
    """Yield the weights of routers, with the projection that each is in."""
    for node in graph.nodes:
        if not isinstance(node.op, RouteTopk):
            continue
        made = _without_casts(graph, node.operands[0])
        if isinstance(made.op, Linear):
            weight = _without_casts(graph, made.operands[1]).op
            if isinstance(weight, Param):
                yield weight.name, made


def _without_casts(graph: Graph, value: Value) -> Node:
    node = graph.nodes[value.node]
    while isinstance(node.op, Cast):
        node = graph.nodes[node.operands[0].node]
    return node


def _is_projected(graph: Graph, value: Value) -> bool:
    node = graph.nodes[value.node]
    if isinstance(node.op, Slice):
        node = graph.nodes[node.operands[0].node]
    return isinstance(node.op, Linear)


def _numbers(shape: tuple[object, ...]) -> tuple[int, ...]:
    return tuple(int(each) for each in shape)  # pyright: ignore[reportArgumentType]  # of weights
