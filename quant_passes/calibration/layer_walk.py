"""One call of a program over all texts, level by level, and what its weights are multiplied by."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, GroupedLinear, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.quant_passes.calibration.gathered_rows import Collected, GatheredRows
from ascendfx.quant_passes.calibration.levels import levels_of
from ascendfx.quant_passes.calibration.row_store import RowStore
from ascendfx.quant_passes.insertion.sites import weight_of

Wanted = Callable[[str], Collected | None]
"""What is wanted of a weight, by key; None: nothing."""
Replaced = Callable[[str, int], Array | None]
"""What a weight has become, by key and expert, float32 ``[out, in]``; None: it is as it was."""
Observe = Callable[[Graph, Node, tuple[Array, ...], Call | None], None]
"""Looks at the operands of each operation before it runs, part by part of the windows.

What projects is in the format in which it is stored.
"""
Gathered = dict[str, tuple[GatheredRows, ...]]
"""By key of the weight; of stacked experts one for each."""


class LayerWalk(Evaluator[Array]):
    """Computes one call, part by part; weights stay in their format and are read once.

    Numbers are float32; a weight is widened when it is multiplied, stacked experts one by one.
    """

    def __init__(
        self,
        program: Program,
        source: TensorSource,
        wanted: Wanted,
        replaced: Replaced | None = None,
        observe: Observe | None = None,
    ) -> None:
        """Prepare.

        Args:
            program: Where called functions are looked up.
            source: The weights.
            wanted: What is to be known of which weight.
            replaced: Asked for each weight of which something is wanted, once that is known; None:
                weights are as they were.
            observe: Looks at operands; those of what weights are made of first are left out.
        """
        super().__init__(program)
        self._observe = observe
        self.rows: Gathered = {}
        self._source, self._wanted, self._replaced = source, wanted, replaced
        self._store = RowStore()
        self._weights: dict[str, Array] = {}
        self._gathered: dict[object, tuple[GatheredRows, ...]] = {}
        self._sizes: Mapping[str, int] = {}
        self._added: set[object] = set()

    def begin(self, sizes: Mapping[str, int]) -> None:
        """Begin a part of the windows."""
        self._sizes = sizes
        self._added = set()

    def at(
        self, node: Node, operands: Sequence[Array | None], inputs: Mapping[str, Array]
    ) -> tuple[Array, ...]:
        """Return the results of a node of the entry."""
        known = tuple(each for each in operands if each is not None)
        return self._node(self.program.main, node, known, inputs, None)

    def drop_weights(self) -> None:
        """Forget the weights that were read."""
        self._weights = {}

    def levels(
        self,
        call: Call,
        given: Sequence[tuple[Array, ...]],
        sizes: Sequence[Mapping[str, int]],
        results: list[tuple[Array, ...]],
    ) -> Iterator[Gathered]:
        """Yield what the weights of each level saw; the next level reads what they have become.

        Args:
            call: The call.
            given: Its operands, by part.
            sizes: Named sizes, by part.
            results: Filled in at the end, by part.
        """
        graph = self.program.by_name[call.callee]
        counted = self._counted(graph, call)
        own = levels_of(graph, counted)
        order = sorted(range(len(graph.nodes)), key=lambda each: (own[each], each))
        last = _last_use(graph, order)
        values: list[dict[int, tuple[Array, ...]]] = [{} for _ in given]
        for level in range(max(own, default=0) + 1):
            for part, operands in enumerate(given):
                self.begin(sizes[part])
                inputs = dict(zip(graph.input_types, operands, strict=True))
                for position in _agenda(graph, own, counted, level):
                    node = graph.nodes[position]
                    if own[position] > level:
                        self._note(graph, node, _operands(graph, node, values[part]), call)
                        continue
                    found = self._found(graph, node, values[part], inputs, call)
                    values[part][position] = found
                    for used in last.get(position, ()):
                        values[part].pop(used, None)
            self.drop_weights()
            rows, self.rows, self._gathered = self.rows, {}, {}
            yield rows
            self._store = RowStore()
        results += [tuple(held[v.node][v.result] for v in graph.outputs) for held in values]

    def step(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the results of a node, in float32."""
        results = node.op.substitute(self._sizes).reference(*operands)
        return tuple(narrow(np.asarray(each)) for each in results)

    def tensor(self, graph: Graph, key: str) -> Array:
        """Return a tensor of the checkpoint, in float32."""
        return narrow(self._loaded(key))

    def record(
        self, graph: Graph, node: Node, operands: Sequence[Array | None], call: Call | None
    ) -> None:
        """Note the inputs of a projection by a weight of which something is wanted."""
        if self._key(graph, node, call) is not None:
            self._note(graph, node, operands, call)

    def _found(
        self,
        graph: Graph,
        node: Node,
        values: Mapping[int, tuple[Array, ...]],
        inputs: Mapping[str, Array],
        call: Call,
    ) -> tuple[Array, ...]:
        operands = _operands(graph, node, values)
        parameter = weight_of(graph, node)
        if parameter is None or (graph.name, parameter.name) in self.program.recipes:
            read = (
                self._node(graph, graph.nodes[v.node], (), inputs, call)[0]
                if each is None
                else each
                for v, each in zip(node.operands, operands, strict=True)
            )
            known = tuple(read)
            if self._observe is not None:
                self._observe(graph, node, known, call)
            return self._node(graph, node, known, inputs, call)
        if self._observe is not None:
            stored = self._loaded(call.key_of(parameter.name))
            self._observe(
                graph, node, tuple(stored if each is None else each for each in operands), call
            )
        if self._replaced is None:
            self.record(graph, node, operands, call)
        return (self._product(node, call.key_of(parameter.name), operands),)

    def _product(self, node: Node, key: str, operands: Sequence[Array | None]) -> Array:
        x = _computed(operands[0])
        if not isinstance(node.op, GroupedLinear):
            return self.step(node, (x, self._matrix(key, None)))[0]
        y = np.zeros((len(x), int(node.types[0].shape[1])), np.float32)
        first = 0
        for expert, end in enumerate(map(int, _computed(operands[2]))):
            if end > first:
                y[first:end] = x[first:end] @ self._matrix(key, expert).T
            first = end
        return y

    def _matrix(self, key: str, expert: int | None) -> Array:
        made = self._replaced(key, expert or 0) if self._replaced else None
        if made is not None:
            return made
        whole = self._loaded(key)
        return narrow(whole if expert is None else whole[expert])

    def _loaded(self, key: str) -> Array:
        if key not in self._weights:
            self._weights[key] = np.asarray(self._source.load(key))
        return self._weights[key]

    def _counted(self, graph: Graph, call: Call) -> frozenset[str]:
        """Return the weights between which levels are: those that may be replaced."""
        if self._replaced is None:
            return frozenset()
        parameters = filter(None, (weight_of(graph, node) for node in graph.nodes))
        return frozenset(
            each.name
            for each in parameters
            if (graph.name, each.name) not in self.program.recipes
            and self._wanted(call.key_of(each.name)) is not None
        )

    def _key(self, graph: Graph, node: Node, call: Call | None) -> str | None:
        parameter = weight_of(graph, node)
        if parameter is None or (graph.name, parameter.name) in self.program.recipes:
            return None
        return call.key_of(parameter.name) if call else parameter.name

    def _note(
        self, graph: Graph, node: Node, operands: Sequence[Array | None], call: Call | None
    ) -> None:
        parameter, key = weight_of(graph, node), self._key(graph, node, call)
        collected = None if key is None else self._wanted(key)
        if parameter is None or key is None or collected is None:
            return
        shape = parameter.type.shape
        stacked = isinstance(node.op, GroupedLinear)
        experts = int(shape[0]) if stacked else 1
        place = (id(call), node.operands[:1] + node.operands[2:], experts, collected)
        if place not in self._gathered:
            self._gathered[place] = tuple(
                GatheredRows(int(shape[-1]), collected, self._store, expert=stacked)
                for _ in range(experts)
            )
        self.rows[key] = self._gathered[place]
        if place not in self._added:
            self._added.add(place)
            ends = _computed(operands[2]) if stacked else None
            _add(self._gathered[place], _computed(operands[0]), ends)


def narrow(array: Array) -> Array:
    """Return floats as float32, integers as int64."""
    if array.dtype.kind in "biu":
        return array.astype(np.int64) if array.dtype.kind in "iu" else array
    return array.astype(np.float32, copy=False)


def _agenda(graph: Graph, own: Sequence[int], counted: frozenset[str], level: int) -> Iterator[int]:
    """Yield what is to be done at a level: its nodes, and the weights whose inputs are known."""
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Param):
            continue
        weight = weight_of(graph, node)
        noted = own[position] == level + 1 and weight is not None and weight.name in counted
        if own[position] == level or noted:
            yield position


def _operands(
    graph: Graph, node: Node, values: Mapping[int, tuple[Array, ...]]
) -> list[Array | None]:
    """Return the operands of a node; None for parameters, which are read when they are needed."""
    return [
        None if isinstance(graph.nodes[v.node].op, Param) else values[v.node][v.result]
        for v in node.operands
    ]


def _last_use(graph: Graph, order: Sequence[int]) -> dict[int, list[int]]:
    """Return, by node, those nodes whose results nobody reads after it in an order."""
    last = {each: each for each in order}
    for position in order:
        last |= {v.node: position for v in graph.nodes[position].operands}
    for value in graph.outputs:
        last.pop(value.node, None)
    found: dict[int, list[int]] = {}
    for used, position in last.items():
        found.setdefault(position, []).append(used)
    return found


def _computed(operand: Array | None) -> Array:
    if operand is None:
        raise AssertionError("a projection reads a parameter where rows or ends belong")
    return operand


def _add(gathered: Sequence[GatheredRows], x: Array, ends: Array | None) -> None:
    """Add the rows of a projection; of a grouped one, to the expert that they belong to."""
    rows = x.reshape(-1, x.shape[-1])
    first = 0
    for each, end in zip(gathered, [len(rows)] if ends is None else ends, strict=True):
        each.add(rows[first : int(end)])
        first = int(end)
