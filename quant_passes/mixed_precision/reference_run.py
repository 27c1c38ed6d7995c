"""A program over texts as it is, and what its predictions become when some weights change."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, GroupedLinear, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.quant_passes.checkpoint.saved_weight import Activation
from ascendfx.quant_passes.insertion.sites import parameters_of, weight_of
from ascendfx.quant_passes.mixed_precision.fake_inputs import fake_inputs


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Weights in place of those of a program.

    Attributes:
        weights: By key, in the shape of the program.
        activations: What inputs become, by key: of each expert, or the one.
    """

    weights: Mapping[str, Array] = field(default_factory=dict[str, Array])
    activations: Mapping[str, tuple[Activation, ...]] = field(
        default_factory=dict[str, tuple[Activation, ...]]
    )


class ReferenceRun(Evaluator[Array]):
    """Computes in float32, all texts at once, all weights in memory.

    What comes before a changed weight is not computed again.
    """

    def __init__(self, program: Program, source: TensorSource, windows: NDArray[np.int64]) -> None:
        """Run the program as it is.

        Args:
            program: With one input of token ids ``[batch, tokens]``; the first result are logits.
            source: Its weights.
            windows: Token ids ``[windows, length]``.

        Raises:
            GraphError: A weight is missing.
        """
        super().__init__(program)
        (name,) = program.main.input_types
        shape = program.main.input_types[name].shape
        self._sizes = {
            str(size): n for size, n in zip(shape, windows.shape, strict=True) if size != n
        }
        self._inputs: Mapping[str, Array] = {name: windows}
        self._source, self._changes = source, Changes()
        self._weights: dict[str, Array] = {}
        self._values: list[tuple[Array, ...]] = []
        for node in program.main.nodes:
            self._values.append(self._result(node, self._values))
        self._true = _log_softmax(self._logits(self._values))

    def divergence(self, changes: Changes) -> float:
        """Return KL(as it is | changed) in nats, the mean over all places of all texts."""
        return float(self.divergences(changes).mean())

    def divergences(self, changes: Changes) -> NDArray[np.float64]:
        """Return it for each place, ``[windows, length]``."""
        self._changes = changes
        values = list(self._values)
        new: set[int] = set()
        for position, node in enumerate(self.program.main.nodes):
            if self._reads(node, changes) or any(v.node in new for v in node.operands):
                values[position] = self._result(node, values)
                new.add(position)
        self._changes = Changes()
        own = _log_softmax(self._logits(values))
        return (np.exp(self._true) * (self._true - own)).sum(-1)

    def step(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the results of an operation, in float32."""
        results = node.op.substitute(self._sizes).reference(*operands)
        return tuple(_narrow(np.asarray(each)) for each in results)

    def tensor(self, graph: Graph, key: str) -> Array:
        """Return a weight as it is, or as it is changed."""
        if key in self._changes.weights:
            return self._changes.weights[key]
        if key not in self._weights:
            self._weights[key] = _narrow(np.asarray(self._source.load(key)))
        return self._weights[key]

    def _node(
        self,
        graph: Graph,
        node: Node,
        operands: tuple[Array, ...],
        inputs: Mapping[str, Array],
        call: Call | None,
    ) -> tuple[Array, ...]:
        parameter = weight_of(graph, node)
        if parameter is not None:
            key = call.key_of(parameter.name) if call else parameter.name
            forms = self._changes.activations.get(key)
            if forms is not None:
                ends = operands[-1] if isinstance(node.op, GroupedLinear) else None
                operands = (_changed(operands[0], forms, ends), *operands[1:])
        return super()._node(graph, node, operands, inputs, call)

    def _result(self, node: Node, values: list[tuple[Array, ...]]) -> tuple[Array, ...]:
        operands = tuple(values[v.node][v.result] for v in node.operands)
        return self._node(self.program.main, node, operands, self._inputs, None)

    def _reads(self, node: Node, changes: Changes) -> bool:
        """Whether a node of the entry computes with what is changed."""
        op, keys = node.op, {*changes.weights, *changes.activations}
        if isinstance(op, Param):
            return op.name in keys
        if isinstance(op, Call):
            body = self.program.by_name[op.callee]
            return any(op.key_of(name) in keys for name in parameters_of(self.program, body))
        parameter = weight_of(self.program.main, node)
        return parameter is not None and parameter.name in keys

    def _logits(self, values: list[tuple[Array, ...]]) -> NDArray[np.float64]:
        result = self.program.main.outputs[0]
        return values[result.node][result.result].astype(np.float64)


def _changed(x: Array, forms: tuple[Activation, ...], ends: Array | None) -> Array:
    """Return inputs as codes have them; rows of each expert in its form."""
    if len(set(forms)) == 1:
        return fake_inputs(x, forms[0])
    if ends is None:
        raise AssertionError("rows without experts have one form")
    parts = np.split(x, ends[:-1].astype(int))
    return np.concatenate([fake_inputs(*each) for each in zip(parts, forms, strict=True)])


def _log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _narrow(array: Array) -> Array:
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    return array if array.dtype.kind == "b" else array.astype(np.float32, copy=False)
