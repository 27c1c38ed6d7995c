"""A program with quantized weights and inputs as numbers, as the reference computes it."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.quant_passes.insertion.sites import weight_of

Inputs = Callable[[str, Array], Array]
"""What the inputs of a weight become, by its key."""


class FakeQuantized(Evaluator[Array]):
    """Runs in float32; of each projection by a weight, the inputs are changed first."""

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, Array],
        inputs: Inputs,
        ids: NDArray[np.int64],
        hidden: Array | None = None,
    ) -> None:
        """Prepare.

        Args:
            program: A model, or a draft layer, which reads hidden states, too.
            weights: By key, float32.
            inputs: What becomes of inputs.
            ids: ``[texts, tokens]``.
            hidden: What a draft layer reads, ``[texts, tokens, H]``.
        """
        super().__init__(program)
        self._weights, self._inputs = weights, inputs
        first, *others = program.main.input_types
        self._given = {first: ids, **{name: hidden for name in others if hidden is not None}}
        names = program.main.input_types[first].shape
        self._sizes = {str(name): size for name, size in zip(names, ids.shape, strict=True)}
        self.hidden: Array | None = None

    def logits(self) -> NDArray[np.float32]:
        """Return ``[texts, tokens, vocabulary]``; `hidden` is what the head read, then."""
        return self.run(self.program.main, self._given)[0]

    def step(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        results = node.op.substitute(self._sizes).reference(*operands)
        return tuple(narrow(np.asarray(each)) for each in results)

    def tensor(self, graph: Graph, key: str) -> Array:
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
            if call is None:
                self.hidden = operands[0]  # the last one is that of the head
            key = call.key_of(parameter.name) if call else parameter.name
            operands = (self._inputs(key, operands[0]), *operands[1:])
        return super()._node(graph, node, operands, inputs, call)


def by_token(x: Array) -> Array:
    """Return rows as int8 codes have them, a scale for each."""
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), 1e-30) / np.float32(127)
    return np.rint(x / scale) * scale


def by_tensor(x: Array, scale: float) -> Array:
    """Return numbers as int8 codes with one scale have them."""
    return np.clip(np.rint(x / np.float32(scale)), -127, 127) * np.float32(scale)


def narrow(array: Array) -> Array:
    """Return floats as float32, integers as int64."""
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    return array if array.dtype.kind == "b" else array.astype(np.float32, copy=False)
