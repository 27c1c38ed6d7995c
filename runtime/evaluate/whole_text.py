"""A program over a whole text, node by node in float64, in parts that different workers may run."""

from collections.abc import Mapping
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, Input, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.runtime.materialise_weight import check_finite

Carried = dict[int, tuple[Array, ...]]
"""Results of nodes of the entry that later nodes read, by position."""
K = TypeVar("K")
KEPT_BYTES = 4 << 30
"""Weights that are held in float64; those beyond are read again for every text."""


class WholeText(Evaluator[Array]):
    """Computes a program for one text at a time: what a text gives depends on no other one.

    Attributes:
        program: The entry reads token ids ``[1, tokens]`` and perhaps more.
    """

    def __init__(self, program: Program, source: TensorSource, kept_bytes: int = KEPT_BYTES):
        super().__init__(program)
        self._source = source
        self._left = kept_bytes
        self._tensors: dict[str, Array] = {}
        self._made: dict[tuple[str, str, int], Array] = {}
        self._sizes: dict[str, int] = {}

    def outputs(self, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
        """Return the results of the entry.

        Raises:
            GraphError: A weight is missing, or is not finite.
        """
        return self.part(inputs, {}, (0, 1))[1]

    def part(
        self, inputs: Mapping[str, Array], carried: Carried, part: tuple[int, int]
    ) -> tuple[Carried, tuple[Array, ...]]:
        """Run one part of the entry.

        Args:
            inputs: By name, the same in all parts.
            carried: What the part before it returned; of the first one nothing.
            part: Its number, and how many there are.

        Returns:
            What the next part needs; the results, which all but the last one leave empty.
        """
        main, (number, parts) = self.program.main, part
        ends = cuts(self.program, parts)
        first, end = ends[number], ends[number + 1]
        self._set_sizes(inputs)
        values = dict(carried)
        for position in range(first, end):
            self._run(main, position, inputs, values)
        if number + 1 < parts:
            read = {value.node for value in _read_behind(main, end)}
            return {at: values[at] for at in sorted(read & values.keys())}, ()
        for value in main.outputs:
            self._leaf(main, value.node, inputs, values)
        return {}, tuple(values[value.node][value.result] for value in main.outputs)

    def step(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the results of an operation."""
        results = node.op.substitute(self._sizes).reference(*operands)
        return tuple(map(np.asarray, results))

    def tensor(self, graph: Graph, key: str) -> Array:
        """Return a weight in float64; it is looked at once.

        Raises:
            GraphError: It is missing, or is not finite.
        """
        if key in self._tensors:
            return self._tensors[key]
        check_finite(self._source, key)
        return self._keep(self._tensors, key, widened(self._source.load(key)))

    def _param(self, graph: Graph, name: str, call: Call | None) -> Array:
        if (graph.name, name) not in self.program.recipes:
            return super()._param(graph, name, call)
        place = (graph.name, name, id(call))  # calls live as long as the program
        if place in self._made:
            return self._made[place]
        return self._keep(self._made, place, super()._param(graph, name, call))

    def _keep(self, kept: dict[K, Array], key: K, array: Array) -> Array:
        if array.nbytes <= self._left:
            self._left -= array.nbytes
            kept[key] = array
        return array

    def _set_sizes(self, inputs: Mapping[str, Array]) -> None:
        self._sizes = {
            str(name): size
            for key, kind in self.program.main.input_types.items()
            for name, size in zip(kind.shape, inputs[key].shape, strict=True)
            if not isinstance(name, int)
        }

    def _run(
        self, main: Graph, position: int, inputs: Mapping[str, Array], values: Carried
    ) -> None:
        node = main.nodes[position]
        for value in node.operands:
            self._leaf(main, value.node, inputs, values)
        operands = tuple(values[v.node][v.result] for v in node.operands)
        values[position] = self._node(main, node, operands, inputs, None)

    def _leaf(
        self, main: Graph, position: int, inputs: Mapping[str, Array], values: Carried
    ) -> None:
        """Compute a leaf of an earlier part: every worker has inputs and weights itself."""
        if position not in values:
            values[position] = self._node(main, main.nodes[position], (), inputs, None)


def cuts(program: Program, parts: int) -> tuple[int, ...]:
    """Return where parts of the entry begin and end, with about as many operations in each."""
    sizes = [
        len(program.by_name[node.op.callee].nodes) if isinstance(node.op, Call) else 1
        for node in program.main.nodes
    ]
    sums = [0, *accumulate(sizes)]
    inner = (
        min(range(len(sums)), key=lambda i: abs(sums[i] * parts - sums[-1] * part))
        for part in range(1, parts)
    )
    return (0, *inner, len(sizes))


def widened(array: NDArray[np.generic]) -> Array:
    """Return floats as float64 and integers as int64, as the interpreter computes."""
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    return array if array.dtype.kind == "b" else array.astype(np.float64)


def _read_behind(main: Graph, end: int) -> list[Value]:
    """Return what is read at ``end`` or behind it, but for leaves."""
    read = [value for node in main.nodes[end:] for value in node.operands]
    return [
        value
        for value in (*read, *main.outputs)
        if value.node < end and not isinstance(main.nodes[value.node].op, Input | Param)
    ]
