"""Copy a graph with transforms that cancel, in pairs, at the chosen places."""

from collections.abc import Collection
from dataclasses import dataclass

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Call,
    Cast,
    Divide,
    GatherRows,
    Input,
    Linear,
    Multiply,
    Param,
    RmsNorm,
    RowGroups,
    Transpose,
)
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.apply_rules import right_side
from ascendfx.passes.match import Miss, match_at
from ascendfx.passes.pattern import patterns_of
from ascendfx.passes.rotation_parameter import rotation_name
from ascendfx.quant_passes.migration.choices import Choices
from ascendfx.quant_passes.migration.places import Place
from ascendfx.quant_passes.migration.rules import GAIN
from ascendfx.quant_passes.migration.transform_name import factors_name

STREAM = "stream"
"""Stands for the name of a place: the rotation of the residual stream is one for all layers."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """A graph with pairs.

    Attributes:
        graph: Computes what the old one computes; its inputs and outputs that are the residual
            stream are rotated.
        gains: Gains that became factors of the channels behind their norm.
    """

    graph: Graph
    gains: frozenset[str]


def insert_pairs(
    graph: Graph, places: Collection[Place], choices: Choices, stream: Collection[Value]
) -> Pairs:
    """Insert the chosen transform at every place, and one at every value of the stream.

    Args:
        graph: The graph.
        places: Where.
        choices: Which.
        stream: Values that hold the residual stream; none if it is not rotated.
    """
    copy = _Copy(graph, {place.value: place for place in places}, choices, frozenset(stream))
    return copy.run()


class _Copy:
    def __init__(
        self,
        graph: Graph,
        places: dict[Value, Place],
        choices: Choices,
        stream: frozenset[Value],
    ) -> None:
        self._graph, self._places, self._choices = graph, places, choices
        self._stream = stream
        self._builder = GraphBuilder(graph.name)
        self._gains: set[str] = set()
        self._moved: dict[Value, Value] = {}
        self._shared: dict[tuple[Op, Value], Value] = {}

    def run(self) -> Pairs:
        graph, builder, moved = self._graph, self._builder, self._moved
        for position, node in enumerate(graph.nodes):
            with builder.at(node.location):
                operands = tuple(moved[each] for each in node.operands)
                results = self._results(position, node, operands)
                for i, result in enumerate(results):
                    moved[Value(position, i)] = self._placed(Value(position, i), result)
        outputs = (
            self._rotated(moved[each]) if each in self._stream else moved[each]
            for each in graph.outputs
        )
        return Pairs(builder.build(*outputs), frozenset(self._gains))

    def _results(self, position: int, node: Node, operands: tuple[Value, ...]) -> tuple[Value, ...]:
        if isinstance(node.op, Call):
            given = zip(node.operands, operands, strict=True)
            operands = tuple(self._rotated(v) if old in self._stream else v for old, v in given)
        if isinstance(node.op, RmsNorm):
            place = self._places.get(Value(position))
            rotates = place is not None and self._choice(place) == "rotation"
            if place is not None and place.kind == "latent" and rotates:
                rotated = self._pair(operands[0], rotation_name(place.name))
                return self._without_gain(position, (rotated, operands[1]))
            if node.operands[0] in self._stream:
                return self._without_gain(position, operands)
        return self._builder.add_multi(node.op, *operands)

    def _without_gain(self, position: int, operands: tuple[Value, ...]) -> tuple[Value, ...]:
        site = match_at(patterns_of(GAIN)[0], self._graph, Value(position))
        if isinstance(site, Miss):
            return self._builder.add_multi(self._graph.nodes[position].op, *operands)
        gain = self._graph.op_of(site.bound["gain"])
        if isinstance(gain, Param):
            self._gains.add(gain.name)
        return right_side(self._builder, GAIN, site, operands)

    def _placed(self, old: Value, value: Value) -> Value:
        if old in self._stream:
            op = self._graph.op_of(old)
            if isinstance(op, Input | Call):  # rotated where it comes from
                return self._back(value, rotation_name(STREAM))
            return self._pair(value, rotation_name(STREAM))
        place = self._places.get(old)
        if place is None:
            return value
        choice = self._choice(place)
        if choice == "factors":
            return self._scaled(value, place)
        return self._pair(value, rotation_name(place.name)) if place.kind == "values" else value

    def _choice(self, place: Place) -> str | None:
        choice: str | None = getattr(self._choices, place.kind)
        return choice

    def _scaled(self, value: Value, place: Place) -> Value:
        builder = self._builder
        factors = self._transform(factors_name(place.name), place.shape, value)
        if place.kind == "up" and len(place.shape) > 1:
            (reader,) = self._graph.uses[place.value]
            ends = self._graph.nodes[reader].operands[2]
            groups = RowGroups(builder.type_of(value).shape[0])
            factors = builder.add(GatherRows(), factors, builder.add(groups, self._moved[ends]))
        return builder.add(Multiply(), builder.add(Divide(), value, factors), factors)

    def _rotated(self, value: Value) -> Value:
        return self._builder.add(Linear(), value, self._matrix(rotation_name(STREAM), value))

    def _back(self, value: Value, name: str) -> Value:
        matrix = self._one(Transpose((1, 0)), self._matrix(name, value))
        return self._builder.add(Linear(), value, matrix)

    def _pair(self, value: Value, name: str) -> Value:
        forward = self._builder.add(Linear(), value, self._matrix(name, value))
        return self._back(forward, name)

    def _matrix(self, name: str, value: Value) -> Value:
        width = self._builder.type_of(value).shape[-1]
        return self._transform(name, (width, width), value)

    def _transform(self, name: str, shape: tuple[object, ...], value: Value) -> Value:
        wide = self._builder.leaf(Param(name, TensorType(DType.F64, shape)))  # pyright: ignore[reportArgumentType]
        return self._one(Cast(self._builder.type_of(value).dtype), wide)

    def _one(self, op: Op, value: Value) -> Value:
        """Add an operation once: halves of a pair cancel if they read one and the same matrix."""
        if (op, value) not in self._shared:
            self._shared[op, value] = self._builder.add(op, value)
        return self._shared[op, value]
