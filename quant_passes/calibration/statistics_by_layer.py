"""Runs a program over texts layer by layer, and yields what the weights of each layer saw.

All texts pass a layer before the next one is read, so that the weights of one layer are in memory,
whatever the model's size. Numbers are float32: sums of a model in bfloat16 are not rounded, which
calibration does not need.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.quant_passes.calibration.gathered_rows import GatheredRows
from ascendfx.quant_passes.calibration.layer_walk import (
    LayerWalk,
    Observe,
    Replaced,
    Wanted,
)
from ascendfx.quant_passes.insertion.sites import weight_of
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True, eq=False)
class LayerStatistics:
    """What the weights of one layer saw, or those of one level of it.

    Attributes:
        layer: The function, or the entry, and how many calls were before it.
        rows: By key of the weight; of stacked experts one for each.
    """

    layer: str
    rows: Mapping[str, tuple[GatheredRows, ...]]
    _latest: dict[int, InputStatistics] = field(
        default_factory=dict[int, InputStatistics], repr=False
    )

    def of(self, key: str, expert: int = 0) -> InputStatistics:
        """Return the statistics of a weight of this layer.

        Those of one weight are kept until those of another one that reads other inputs are asked
        for: moments of all experts together are far larger than the layer.
        """
        gathered = self.rows[key][expert]
        if id(gathered) not in self._latest:
            self._latest.clear()
            self._latest[id(gathered)] = gathered.statistics()
        return self._latest[id(gathered)]

    def token_counts(self, key: str) -> tuple[int, ...]:
        """Return how many tokens each expert saw; of another weight, the one number."""
        return tuple(each.tokens for each in self.rows[key])


def statistics_by_layer(
    program: Program,
    source: TensorSource,
    windows: NDArray[np.int64],
    wanted: Wanted,
    *,
    replaced: Replaced | None = None,
    at_once: int = 8,
    observe: Observe | None = None,
) -> Generator[LayerStatistics]:
    """Yield what the weights of each layer saw, in the order of the model.

    Args:
        program: With one input of token ids ``[batch, tokens]``; its calls are the layers.
        source: The weights; each is read once for each call that needs it.
        windows: Token ids ``[windows, length]``.
        wanted: What is to be known of which weight.
        replaced: What weights have become, asked after what they saw was yielded: a layer comes
            level by level then, each with inputs that the weights before it, as they are now, make.
        at_once: Windows that are computed together.
        observe: Looks at what the operations of layers read.

    Raises:
        GraphError: A weight is missing; `values-not-finite`: an activation overflowed.
        RowFileError: Rows of many experts go to a temporary file, for which there is no place.
    """
    (name,) = program.main.input_types
    parts = [windows[i : i + at_once] for i in range(0, len(windows), at_once)]
    sizes = [_sizes(program.main, name, part) for part in parts]
    entry = LayerWalk(program, source, wanted)
    needed = _needed(program.main, wanted)
    last = _last_use(program.main, needed)
    values: list[list[tuple[Array, ...]]] = [[] for _ in program.main.nodes]
    for position, node in enumerate(program.main.nodes):
        operands = [
            tuple(values[v.node][part][v.result] if values[v.node] else None for v in node.operands)
            for part in range(len(parts))
        ]
        entry.drop_weights()
        for part, given in enumerate(operands):
            entry.begin(sizes[part])
            entry.record(program.main, node, given, None)
        if position in needed and isinstance(node.op, Call):
            whole = [tuple(each for each in given if each is not None) for given in operands]
            walk = LayerWalk(program, source, wanted, replaced, observe)
            for rows in walk.levels(node.op, whole, sizes, values[position]):
                yield LayerStatistics(f"{node.op.callee} at {position}", rows)
        elif position in needed:
            for part, given in enumerate(operands):
                entry.begin(sizes[part])
                same = part and isinstance(node.op, Param)  # read once
                values[position].append(
                    values[position][0] if same else entry.at(node, given, {name: parts[part]})
                )
        for used in last.get(position, ()):
            values[used] = []
    if entry.rows:
        yield LayerStatistics(program.main.name, entry.rows)


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
