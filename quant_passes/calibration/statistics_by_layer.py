"""Runs a program over texts layer by layer, and yields what the weights of each layer saw.

All texts pass a layer before the next one is read, so that the weights of one layer are in memory,
whatever the model's size. Numbers are float32: sums of a model in bfloat16 are not rounded, which
calibration does not need.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, GroupedLinear, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.quant_passes.calibration.gathered_rows import GatheredRows
from ascendfx.quant_passes.insertion.sites import weight_of
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True)
class Collected:
    """What is to be known of the inputs of a weight.

    Attributes:
        moments: ``X^T X``.
        keep: Rows to keep of each window.
    """

    moments: bool = False
    keep: int = 0


Wanted = Callable[[str], Collected | None]
"""What is wanted of a weight, by key; None: nothing."""
Observe = Callable[[Graph, Node, tuple[Array, ...], Call | None], None]
"""Looks at the operands of each operation before it runs, part by part of the windows."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerStatistics:
    """What the weights of one layer saw.

    Attributes:
        layer: The function, or the entry, and how many calls were before it.
        rows: By key of the weight; of stacked experts one for each.
    """

    layer: str
    rows: Mapping[str, tuple[GatheredRows, ...]]

    def of(self, key: str, expert: int = 0) -> InputStatistics:
        """Return the statistics of a weight of this layer."""
        return self.rows[key][expert].statistics()

    def token_counts(self, key: str) -> tuple[int, ...]:
        """Return how many tokens each expert saw; of another weight, the one number."""
        return tuple(each.tokens for each in self.rows[key])


def statistics_by_layer(
    program: Program,
    source: TensorSource,
    windows: NDArray[np.int64],
    wanted: Wanted,
    *,
    at_once: int = 8,
    observe: Observe | None = None,
) -> Iterator[LayerStatistics]:
    """Yield what the weights of each layer saw, in the order of the model.

    Args:
        program: With one input of token ids ``[batch, tokens]``; its calls are the layers.
        source: The weights; each is read once for each call that needs it.
        windows: Token ids ``[windows, length]``.
        wanted: What is to be known of which weight.
        at_once: Windows that are computed together.
        observe: Looks at operands; those of what weights are made of first are left out.

    Raises:
        GraphError: A weight is missing; `values-not-finite`: an activation overflowed.
    """
    (name,) = program.main.input_types
    parts = [windows[i : i + at_once] for i in range(0, len(windows), at_once)]
    sizes = [_sizes(program.main, name, part) for part in parts]
    entry = _Layer(program, source, wanted, observe)
    needed = _needed(program.main, wanted)
    last = _last_use(program.main, needed)
    values: list[list[tuple[Array, ...]]] = [[] for _ in program.main.nodes]
    for position, node in enumerate(program.main.nodes):
        operands = [
            tuple(values[v.node][part][v.result] for v in node.operands if values[v.node])
            for part in range(len(parts))
        ]
        called = isinstance(node.op, Call)
        layer = _Layer(program, source, wanted, observe) if called else entry
        for part, given in enumerate(operands):
            layer.begin(sizes[part])
            layer.record(program.main, node, given, None)
            if position in needed:
                same = part and isinstance(node.op, Param)  # read once
                found = values[position][0] if same else layer.at(node, given, {name: parts[part]})
                values[position].append(found)
        for used in last.get(position, ()):
            values[used] = []
        if layer is not entry:
            yield LayerStatistics(f"{layer.name} at {position}", layer.rows)
    if entry.rows:
        yield LayerStatistics(program.main.name, entry.rows)


class _Layer(Evaluator[Array]):
    """Computes one call, part by part, with its weights kept; notes what they are multiplied by."""

    def __init__(
        self,
        program: Program,
        source: TensorSource,
        wanted: Wanted,
        observe: Observe | None = None,
    ) -> None:
        super().__init__(program)
        self._observe = observe
        self.name = program.main.name
        self.rows: dict[str, tuple[GatheredRows, ...]] = {}
        self._source, self._wanted = source, wanted
        self._weights: dict[str, Array] = {}
        self._gathered: dict[object, tuple[GatheredRows, ...]] = {}
        self._sizes: Mapping[str, int] = {}
        self._added: set[object] = set()
        self._recipes = 0

    def begin(self, sizes: Mapping[str, int]) -> None:
        """Begin a part of the windows."""
        self._sizes = sizes
        self._added = set()

    def at(
        self, node: Node, operands: tuple[Array, ...], inputs: Mapping[str, Array]
    ) -> tuple[Array, ...]:
        """Return the results of a node of the entry."""
        if isinstance(node.op, Call):
            self.name = node.op.callee
        else:
            self._weights = {}  # the entry reads each of its weights once
        return super()._node(self.program.main, node, operands, inputs, None)

    def step(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        results = node.op.substitute(self._sizes).reference(*operands)
        return tuple(_narrow(np.asarray(each)) for each in results)

    def tensor(self, graph: Graph, key: str) -> Array:
        if key not in self._weights:
            self._weights[key] = _narrow(np.asarray(self._source.load(key)))
        return self._weights[key]

    def weight(self, recipe: Graph, call: Call | None) -> Array:
        self._recipes += 1
        try:
            return super().weight(recipe, call)
        finally:
            self._recipes -= 1

    def record(
        self, graph: Graph, node: Node, operands: tuple[Array, ...], call: Call | None
    ) -> None:
        """Note the inputs of a projection by a weight."""
        if self._observe is not None and not self._recipes:
            self._observe(graph, node, operands, call)
        parameter = None if self._recipes else weight_of(graph, node)
        if parameter is None or (graph.name, parameter.name) in self.program.recipes:
            return
        key = call.key_of(parameter.name) if call else parameter.name
        collected = self._wanted(key)
        if collected is None:
            return
        shape = parameter.type.shape
        experts = int(shape[0]) if isinstance(node.op, GroupedLinear) else 1
        place = (id(call), node.operands[:1] + node.operands[2:], experts, collected)
        if place not in self._gathered:
            self._gathered[place] = tuple(
                GatheredRows(int(shape[-1]), moments=collected.moments, keep=collected.keep)
                for _ in range(experts)
            )
        self.rows[key] = self._gathered[place]
        if place not in self._added:
            self._added.add(place)
            _add(self._gathered[place], operands)

    def _node(
        self,
        graph: Graph,
        node: Node,
        operands: tuple[Array, ...],
        inputs: Mapping[str, Array],
        call: Call | None,
    ) -> tuple[Array, ...]:
        self.record(graph, node, operands, call)
        return super()._node(graph, node, operands, inputs, call)


def _add(gathered: Sequence[GatheredRows], operands: Sequence[Array]) -> None:
    """Add the rows of a projection; of a grouped one, to the expert that they belong to."""
    x = operands[0].reshape(-1, operands[0].shape[-1])
    ends = operands[-1] if len(gathered) > 1 or len(operands) > 2 else [len(x)]
    first = 0
    for each, end in zip(gathered, ends, strict=True):
        each.add(x[first : int(end)])
        first = int(end)


def _narrow(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array.astype(np.int64) if array.dtype.kind in "iu" else array
    return array.astype(np.float32, copy=False)


def _sizes(graph: Graph, name: str, part: NDArray[np.int64]) -> dict[str, int]:
    """Return the named sizes that a part of the windows has."""
    shape = graph.input_types[name].shape
    return {str(size): n for size, n in zip(shape, part.shape, strict=True) if str(size) != str(n)}


def _needed(graph: Graph, wanted: Wanted) -> set[int]:
    """Return the nodes of the entry before its last call, and before what is wanted there.

    So no logits are computed.
    """
    pending = [i for i, node in enumerate(graph.nodes) if isinstance(node.op, Call)]
    for node in graph.nodes:
        parameter = weight_of(graph, node)
        if parameter is not None and wanted(parameter.name) is not None:
            pending += [value.node for value in node.operands[:1] + node.operands[2:]]
    found: set[int] = set()
    while pending:
        position = pending.pop()
        if position not in found:
            found.add(position)
            pending += [value.node for value in graph.nodes[position].operands]
    return found


def _last_use(graph: Graph, needed: set[int]) -> dict[int, list[int]]:
    """Return, by node, those nodes whose results nobody reads after it."""
    last = {position: position for position in needed}
    for position, node in enumerate(graph.nodes):
        last |= {value.node: position for value in node.operands if value.node in needed}
    found: dict[int, list[int]] = {}
    for used, position in last.items():
        found.setdefault(position, []).append(used)
    return found
