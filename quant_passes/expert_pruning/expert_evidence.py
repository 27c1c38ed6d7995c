"""What texts say about routed experts: how often each is chosen, and how much it adds then."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, CombineExperts, GroupedLinear
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.quant_passes.calibration.statistics_by_layer import statistics_by_layer
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.insertion.sites import weight_of

_EXPERTS = ".experts."


@dataclass(frozen=True, slots=True, eq=False)
class ExpertEvidence:
    """What is known of the routed experts of a layer.

    Attributes:
        layer: What the keys of its experts begin with, without ``.experts``.
        tokens: How many tokens chose each expert.
        added: For each expert, the sum over its tokens of ``g |f(x)|``: weight of the router times
            norm of the output.
        peaks: Largest magnitude in the outputs of each expert.
    """

    layer: str
    tokens: NDArray[np.int64]
    added: Float64s
    peaks: Float64s

    @property
    def reap(self) -> Float64s:
        """What an expert adds to a token that chooses it, on average; 0 without tokens.

        Source: REAP, router-weighted expert activation pruning.
        """
        return self.added / np.maximum(1, self.tokens)

    @property
    def frequency(self) -> Float64s:
        """The share of the choices that each expert has: the weak baseline."""
        return self.tokens.astype(np.float64) / max(1, int(self.tokens.sum()))


def expert_evidence(
    program: Program, source: TensorSource, windows: NDArray[np.int64]
) -> Iterator[ExpertEvidence]:
    """Yield what is known of each layer with routed experts, in the order of the model.

    One layer of weights is in memory.

    Args:
        program: As of `statistics_by_layer`.
        source: Its weights.
        windows: Token ids ``[windows, length]``.

    Raises:
        GraphError: A weight is missing.
    """
    noted = _Notes()
    for _ in statistics_by_layer(program, source, windows, lambda _: None, observe=noted.observe):
        yield from noted.take()


class _Notes:
    """Adds up over the parts of the texts."""

    def __init__(self) -> None:
        self._ends: dict[str, Array] = {}
        self._found: dict[str, ExpertEvidence] = {}

    def observe(
        self, graph: Graph, node: Node, operands: tuple[Array, ...], call: Call | None
    ) -> None:
        parameter = weight_of(graph, node)
        if parameter is not None and isinstance(node.op, GroupedLinear):
            key = call.key_of(parameter.name) if call else parameter.name
            self._ends[key] = operands[2]
        elif isinstance(node.op, CombineExperts):
            made = graph.nodes[node.operands[0].node]
            down = weight_of(graph, made)
            if down is not None:
                key = call.key_of(down.name) if call else down.name
                self._add(key, operands)

    def take(self) -> Iterator[ExpertEvidence]:
        """Yield what was found, and forget it."""
        found, self._found, self._ends = self._found, {}, {}
        yield from found.values()

    def _add(self, key: str, operands: tuple[Array, ...]) -> None:
        outputs, place, weights = operands
        layer = key.partition(_EXPERTS)[0]
        gates = np.empty(len(outputs))
        gates[place] = weights.reshape(-1)
        rows = np.square(outputs.astype(np.float64)).sum(-1)
        largest = np.abs(outputs).max(-1, initial=0)
        counts = np.diff(self._ends[key], prepend=0).astype(np.int64)
        owner = np.repeat(np.arange(len(counts)), counts)
        added = np.bincount(owner, gates * np.sqrt(rows), len(counts)).astype(np.float64)
        peaks = np.zeros(len(counts))
        np.maximum.at(peaks, owner, largest)
        known = self._found.get(layer)
        if known is not None:
            counts, added = known.tokens + counts, known.added + added
            peaks = np.maximum(known.peaks, peaks)
        self._found[layer] = ExpertEvidence(layer, counts, added, peaks)
