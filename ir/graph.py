"""The graph: operations at places, checked as they are added, never changed afterwards."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from ascendfx.ir.diagnostic import GraphError, OpTypeError
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.op import Op
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param
from ascendfx.ir.tensor_type import TensorType


class Value(NamedTuple):
    """One result of one node.

    Attributes:
        node: Position of the node in its graph.
        result: Which of the node's results.
    """

    node: int
    result: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """An operation at its place.

    Attributes:
        op: What is computed.
        operands: The consumed values; their nodes always stand before this one.
        types: The types of the results.
        location: Where the user's model asked for it; not part of equality.
    """

    op: Op
    operands: tuple[Value, ...]
    types: tuple[TensorType, ...]
    location: Location = field(default=UNKNOWN, compare=False)


@dataclass(frozen=True)
class Graph:
    """A pure function of its `Input` nodes and of the checkpoint.

    Two graphs are equal when they compute the same thing in the same order; names of values do
    not exist, so there is nothing to rename. A graph never changes, so an analysis of it is
    computed once and never goes stale.
    """

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]

    def type_of(self, value: Value) -> TensorType:
        """Return the type of ``value``."""
        return self.nodes[value.node].types[value.result]

    def op_of(self, value: Value) -> Op:
        """Return the operation that makes ``value``."""
        return self.nodes[value.node].op

    @cached_property
    def uses(self) -> dict[Value, tuple[int, ...]]:
        """Positions of the nodes that read each value; a node that reads twice stands twice.

        Graph outputs are not nodes and do not appear here; see `use_count`.
        """
        readers: dict[Value, list[int]] = {}
        for position, node in enumerate(self.nodes):
            for operand in node.operands:
                readers.setdefault(operand, []).append(position)
        return {value: tuple(positions) for value, positions in readers.items()}

    def use_count(self, value: Value) -> int:
        """Return how often ``value`` is consumed; a graph output counts as a use."""
        return len(self.uses.get(value, ())) + self.outputs.count(value)

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """The `Input` nodes in order: the signature of the graph."""
        return tuple(Value(i) for i, node in enumerate(self.nodes) if isinstance(node.op, Input))

    @cached_property
    def params(self) -> tuple[Value, ...]:
        """The `Param` nodes in order."""
        return tuple(Value(i) for i, node in enumerate(self.nodes) if isinstance(node.op, Param))

    @cached_property
    def input_types(self) -> dict[str, TensorType]:
        """Name and type of each input, in order."""
        return {node.op.name: node.op.type for node in self.nodes if isinstance(node.op, Input)}

    @cached_property
    def output_types(self) -> tuple[TensorType, ...]:
        """Types of the outputs."""
        return tuple(map(self.type_of, self.outputs))

    def needed(self, values: Iterable[Value]) -> frozenset[int]:
        """Return the positions of the nodes that make ``values``, and of all that these read."""
        return _needed(self.nodes, values)

    def part(self, outputs: Sequence[Value], *, keep: Iterable[Value] = ()) -> "Graph":
        """Return the graph that computes ``outputs`` and nothing else, in the same order.

        Args:
            outputs: Values of this graph.
            keep: Values whose nodes stay, needed or not.
        """
        kept = sorted(self.needed((*outputs, *keep)))
        place = {old: new for new, old in enumerate(kept)}

        def moved(values: Iterable[Value]) -> tuple[Value, ...]:
            return tuple(Value(place[value.node], value.result) for value in values)

        nodes = (self.nodes[old] for old in kept)
        copies = tuple(replace(node, operands=moved(node.operands)) for node in nodes)
        return Graph(self.name, copies, moved(outputs))


class GraphBuilder:
    """Collects nodes; every node is type-checked as it is added."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[Node] = []
        self._location = UNKNOWN
        self._leaves: dict[Op, Value] = {}

    @contextmanager
    def at(self, location: Location) -> Generator[None]:
        """Give every node added inside the block this location."""
        outer, self._location = self._location, location
        try:
            yield
        finally:
            self._location = outer

    def type_of(self, value: Value) -> TensorType:
        """Return the type of a value added before."""
        return self._nodes[value.node].types[value.result]

    def op_of(self, value: Value) -> Op:
        """Return the operation that makes ``value``."""
        return self._nodes[value.node].op

    def operands_of(self, value: Value) -> tuple[Value, ...]:
        """Return what the node of ``value`` reads."""
        return self._nodes[value.node].operands

    def needed(self, values: Iterable[Value]) -> frozenset[int]:
        """Return the positions of the nodes that make ``values``, and of all that these read."""
        return _needed(self._nodes, values)

    def results_of(self, node: int) -> tuple[TensorType, ...]:
        """Return the result types of the node at a position."""
        return self._nodes[node].types

    def add(self, op: Op, *operands: Value) -> Value:
        """Append a node with one result and return that.

        Raises:
            GraphError: The operand types break the operation's rule.
        """
        results = self.add_multi(op, *operands)
        if len(results) != 1:
            raise AssertionError(f"{op.mnemonic} has {len(results)} results: use add_multi")
        return results[0]

    def add_multi(self, op: Op, *operands: Value) -> tuple[Value, ...]:
        """Append a node and return all its results.

        Raises:
            GraphError: The operand types break the operation's rule.
        """
        try:
            types = op.infer(*map(self.type_of, operands))
        except OpTypeError as error:
            raise GraphError(
                code="operand-type",
                reason=error.reason,
                location=self._location,
                excerpt=self._excerpt(op, operands),
                hint=error.hint,
            ) from error
        self._nodes.append(Node(op, operands, types, self._location))
        position = len(self._nodes) - 1
        return tuple(Value(position, i) for i in range(len(types)))

    def leaf(self, op: Op) -> Value:
        """Return the node of an operation without operands, adding it at its first use."""
        if op not in self._leaves:
            self._leaves[op] = self.add(op)
        return self._leaves[op]

    def build(self, *outputs: Value) -> Graph:
        """Return the finished graph."""
        return Graph(self._name, tuple(self._nodes), outputs)

    def _excerpt(self, op: Op, operands: tuple[Value, ...]) -> str:
        shown = ", ".join(f"{print_value(v)}: {self.type_of(v)}" for v in operands)
        return f"%{len(self._nodes)} = {op.mnemonic} {shown}"


def _needed(nodes: Sequence[Node], values: Iterable[Value]) -> frozenset[int]:
    found: set[int] = set()
    pending = [value.node for value in values]
    while pending:
        position = pending.pop()
        if position not in found:
            found.add(position)
            pending += [operand.node for operand in nodes[position].operands]
    return frozenset(found)


def print_value(value: Value) -> str:
    """Return ``%node`` or, for later results, ``%node.result``."""
    return f"%{value.node}.{value.result}" if value.result else f"%{value.node}"
