"""Keep some nodes of a program; what they read from others becomes a recorded value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, Constant, GatherRows, Input, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.reduction.case import Case

Point = tuple[str, int]
"""A node: the name of its graph and its position."""


@dataclass(frozen=True)
class Recording:
    """A program of one graph, or of an entry and a function that it calls once, with all values.

    Attributes:
        program: The program; at most one call is among the nodes that may be kept.
        call: Position of that call in the entry; None if the entry is all there is.
        values: Results of every node.
        tensors: Parameters by the name that the program reads them by, and inputs of the entry.
        sizes: Named sizes.
        tokens: As in `Case`.
    """

    program: Program
    call: int | None
    values: Mapping[Point, tuple[Array, ...]]
    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    tokens: Array | None = None

    @property
    def function(self) -> Graph | None:
        """The function that is called."""
        if self.call is None:
            return None
        op = self.program.main.nodes[self.call].op
        return self.program.by_name[op.callee] if isinstance(op, Call) else None

    def node(self, point: Point) -> Node:
        """Return a node."""
        return self.program.by_name[point[0]].nodes[point[1]]

    def reads(self, point: Point) -> list[Point]:
        """Return the nodes that a node reads; through the call, where it is one of its ends."""
        main, function = self.program.main, self.function
        node = self.node(point)
        found = [(point[0], value.node) for value in node.operands]
        if function is None or self.call is None:
            return found
        if point == (main.name, self.call):
            return [(function.name, value.node) for value in function.outputs]
        if point[0] == function.name:
            names = list(function.input_types)
            passed = main.nodes[self.call].operands
            found = [
                (main.name, passed[names.index(op.name)].node)
                if isinstance(op := self.node(each).op, Input)
                else each
                for each in found
            ]
        return found


class CannotCutError(ValueError):
    """A value has no leaf of the kind that is needed."""


def cut_program(recorded: Recording, keep: frozenset[Point]) -> Case:
    """Return the case of the kept nodes; those that no kept node reads are its outputs.

    Raises:
        CannotCutError: The program runs on tokens, and a value does not follow the token axis, or
            not the one of texts, so that what reads it would not fit.
    """
    try:
        return _Cutter(recorded, keep).run()
    except GraphError as error:
        raise CannotCutError(error.reason) from error


def ends_of(recorded: Recording, keep: frozenset[Point]) -> list[Point]:
    """Return the kept nodes that no kept node reads, in order; the call is none of them."""
    call = (recorded.program.main.name, recorded.call)
    readers = keep if readers_of_call(recorded, keep) else keep - {call}
    read = {each for point in readers for each in recorded.reads(point)}
    return sorted(point for point in keep - read if point != call)


def readers_of_call(recorded: Recording, keep: frozenset[Point]) -> list[Point]:
    """Return the kept nodes of the entry that read a result of the call."""
    main, call = recorded.program.main, recorded.call
    return [
        point
        for point in sorted(keep)
        if point[0] == main.name and any(v.node == call for v in main.nodes[point[1]].operands)
    ]


@dataclass
class _Cutter:
    recorded: Recording
    keep: frozenset[Point]
    tensors: dict[str, Array] = field(default_factory=dict[str, Array])

    def run(self) -> Case:
        recorded = self.recorded
        main, function = recorded.program.main, recorded.function
        self._main = GraphBuilder(main.name)
        self._known: dict[Value, Value] = {}
        self._leaves: dict[str, Value] = {}
        self._function: Graph | None = None
        self._results: tuple[Value, ...] | None = None
        ends = ends_of(recorded, self.keep)
        inner = [point for point in ends if function is not None and point[0] == function.name]
        self._wanted: list[Value] = []
        if function is not None:
            if readers_of_call(recorded, self.keep):
                self._wanted += function.outputs
            self._wanted += [v for point in inner for v in _results(function, point[1])]
        outer = [
            value for point in ends if point not in inner for value in _results(main, point[1])
        ]
        results = [self._of_main(value) for value in outer]
        if inner:
            made = self._called()
            results += made[len(made) - sum(len(_results(*self._at(p))) for p in inner) :]
        graphs = [self._main.build(*results)] + ([self._function] if self._function else [])
        program = Program(tuple(graphs), recorded.program.recipes).pruned()
        for name in checkpoint_types(program):
            if name not in self.tensors:
                self.tensors[name] = recorded.tensors[name]
        return Case(program, self.tensors, recorded.sizes, recorded.tokens)

    def _at(self, point: Point) -> tuple[Graph, int]:
        return self.recorded.program.by_name[point[0]], point[1]

    def _of_main(self, value: Value) -> Value:
        main = self.recorded.program.main
        node = main.nodes[value.node]
        if value in self._known:
            return self._known[value]
        if value.node == self.recorded.call and (main.name, value.node) in self.keep:
            return self._result_of_call(value)
        with self._main.at(node.location):
            if _is_leaf(node):
                self._copy_input(node)
                self._known[value] = self._main.leaf(node.op)
            elif (main.name, value.node) in self.keep:
                results = self._main.add_multi(node.op, *map(self._of_main, node.operands))
                self._known |= {Value(value.node, i): each for i, each in enumerate(results)}
            else:
                self._known[value] = self._leaf(main, value)
        return self._known[value]

    def _copy_input(self, node: Node) -> None:
        if isinstance(node.op, Input) and self.recorded.tokens is None:
            self.tensors[node.op.name] = self.recorded.tensors[node.op.name]

    def _result_of_call(self, value: Value) -> Value:
        for i, result in enumerate(self._called()):
            self._known.setdefault(Value(value.node, i), result)
        return self._known[value]

    def _called(self) -> tuple[Value, ...]:
        """Return the results of the one call: those the entry reads, then the ends inside."""
        if self._results is None:
            self._results = self._call()
        return self._results

    def _call(self) -> tuple[Value, ...]:
        recorded = self.recorded
        function = recorded.function
        assert function is not None and recorded.call is not None  # noqa: S101, PT018
        node = recorded.program.main.nodes[recorded.call]
        assert isinstance(node.op, Call)  # noqa: S101  # `Recording.call` is a call
        inner = _FunctionCutter(recorded, self.keep, function)
        outputs = [inner.value(each) for each in self._wanted]
        self._function = inner.builder.build(*outputs)
        passed = [
            self._of_main(node.operands[source])
            if isinstance(source, int)
            else self._leaf(function, source)
            for source in inner.sources
        ]
        self.tensors |= inner.tensors
        keys = (*node.op.keys, *((name, name) for name in inner.tensors))
        with self._main.at(node.location):
            op = Call(function.name, self._function.output_types, keys)
            return self._main.add_multi(op, *passed)

    def _leaf(self, graph: Graph, value: Value) -> Value:
        name = cut_name(graph, value)
        if name not in self._leaves:
            self._leaves[name] = self._add_leaf(graph, value, name)
        return self._leaves[name]

    def _add_leaf(self, graph: Graph, value: Value, name: str) -> Value:
        kind = graph.type_of(value)
        array = self.recorded.values[graph.name, value.node][value.result]
        if _of_weights(graph, value.node):
            self.tensors[name] = array
            return self._main.add(Param(name, kind))
        if self.recorded.tokens is None:
            self.tensors[name] = array
            return self._main.add(Input(name, kind))
        return self._table(name, kind, array, self.recorded.tokens)

    def _table(self, name: str, kind: TensorType, array: Array, tokens: Array) -> Value:
        """Look the value up by token: the entry may take nothing but tokens."""
        if array.shape[: tokens.ndim] != tokens.shape or kind.rank < 3:
            raise CannotCutError(name)
        rows = int(tokens.max()) + 1
        table = np.zeros((rows, *array.shape[2:]), array.dtype)
        table[tokens[0]] = array[0]
        self.tensors[name] = table
        ids = Input("token_ids", self.recorded.program.main.input_types["token_ids"])
        param = Param(name, kind.with_shape((rows, *kind.shape[2:])))
        return self._main.add(GatherRows(), self._main.add(param), self._main.leaf(ids))


class _FunctionCutter:
    def __init__(self, recorded: Recording, keep: frozenset[Point], function: Graph) -> None:
        self._recorded = recorded
        self._keep = keep
        self._graph = function
        self._known: dict[Value, Value] = {}
        self.builder = GraphBuilder(function.name)
        self.sources: list[int | Value] = []
        self.tensors: dict[str, Array] = {}

    def value(self, value: Value) -> Value:
        if value in self._known:
            return self._known[value]
        graph, builder = self._graph, self.builder
        node = graph.nodes[value.node]
        with builder.at(node.location):
            if isinstance(node.op, Input):
                self.sources.append(list(graph.input_types).index(node.op.name))
                self._known[value] = builder.add(node.op)
            elif _is_leaf(node):
                self._known[value] = builder.leaf(node.op)
            elif (graph.name, value.node) in self._keep:
                results = builder.add_multi(node.op, *map(self.value, node.operands))
                self._known |= {Value(value.node, i): each for i, each in enumerate(results)}
            elif _of_weights(graph, value.node):
                name = cut_name(graph, value)
                self.tensors[name] = self._recorded.values[graph.name, value.node][value.result]
                self._known[value] = builder.add(Param(name, graph.type_of(value)))
            else:
                self.sources.append(value)
                self._known[value] = builder.add(
                    Input(cut_name(graph, value), graph.type_of(value))
                )
        return self._known[value]


def cut_name(graph: Graph, value: Value) -> str:
    """Return the name of the leaf that stands for a value."""
    suffix = f".{value.result}" if value.result else ""
    return f"{graph.name}.{value.node}{suffix}"


def _results(graph: Graph, position: int) -> list[Value]:
    return [Value(position, i) for i in range(len(graph.nodes[position].types))]


def _is_leaf(node: Node) -> bool:
    return not node.operands


def _of_weights(graph: Graph, position: int) -> bool:
    """Whether a value depends on parameters and constants alone."""
    node = graph.nodes[position]
    if isinstance(node.op, Param | Constant):
        return True
    return bool(node.operands) and all(_of_weights(graph, v.node) for v in node.operands)
