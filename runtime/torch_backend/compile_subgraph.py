"""One functional ATen graph with static shapes to kernels."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule

from ascendfx.codegen.ascendc.lowering.lower_function import FunctionPlan, lower_function
from ascendfx.codegen.ascendc.lowering.view import storage_dtype
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.capture.translate_function import translate_function
from ascendfx.ir.capture.translation import DTYPES
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.kept_roundings import with_roundings
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.merge_row_axes import count_of_rows, merge_row_axes
from ascendfx.passes.registry import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.simplify import Simplify
from ascendfx.runtime.executor.function import FunctionRunner
from ascendfx.runtime.torch_backend.remarks import remark
from ascendfx.runtime.torch_backend.tensors import to_numpy, to_torch

_AFTER_MERGE = (Simplify(), ShareCommon(), DropUnused())


@dataclass(frozen=True)
class Lowered:
    """A graph as kernels.

    Attributes:
        program: What is computed, over rows.
        function: Its launches.
        varying: Placeholders that are inputs; the others are parameters.
    """

    program: Program
    function: FunctionPlan
    varying: frozenset[str]


def lower_subgraph(
    module: GraphModule, static: Collection[str], rows: int, target: Target
) -> Lowered:
    """Lower a graph; what counts as rows decides about speed only.

    Args:
        module: Functional calls of ATen with fake tensors in ``meta``; no `odd_formats` cross its
            border.
        static: Placeholders that hold weights.
        rows: Token rows of the whole graph, to be used where an input has so many.
        target: The chip.

    Raises:
        GraphError: The graph cannot be lowered.
    """
    kinds = {node.name: node.meta["val"] for node in module.graph.find_nodes(op="placeholder")}
    changing = {name: tuple(kind.shape) for name, kind in kinds.items() if name not in static}
    chosen = rows
    if not any(count_of_rows(shape, rows) for shape in changing.values()):
        chosen = token_rows(changing.values())
    varying = frozenset(name for name, shape in changing.items() if count_of_rows(shape, chosen))
    if not varying or not chosen:
        raise GraphError(
            "not-lowered", "no input has rows", hint="a function of weights alone runs eagerly"
        )
    return _lower(module, varying, chosen, target)


def token_rows(shapes: Iterable[tuple[int, ...]]) -> int:
    """Return the rows of the largest tensor: all its axes but the last."""
    matrices = [shape for shape in shapes if len(shape) >= 2]
    largest = max(matrices, key=lambda shape: (prod(shape), len(shape)), default=(0, 0))
    return prod(largest[:-1])


def _lower(
    module: GraphModule,
    varying: frozenset[str],
    rows: int,
    target: Target,
) -> Lowered:
    program = Program((translate_function(module, varying, "main"),))
    for step in RAISE:
        program = step.run(program).program
    program = Program((merge_row_axes(program.main, rows),), program.recipes)
    for step in _AFTER_MERGE:
        program = step.run(program).program
    function = lower_function(program, target=target, rows=rows, name="function")
    return Lowered(program, function, varying)


class CompiledSubgraph(torch.nn.Module):
    """Calls kernels where a graph stood.

    Attributes:
        launches: Kernels that a call launches.
    """

    def __init__(
        self, module: GraphModule, lowered: Lowered, executor: str, target: Target
    ) -> None:
        super().__init__()
        self._eager = module
        self._lowered = lowered
        self._names = [node.name for node in module.graph.find_nodes(op="placeholder")]
        output = next(iter(module.graph.find_nodes(op="output"))).args[0]
        self._single = not isinstance(output, list | tuple)
        nodes: Any = (output,) if self._single else output
        self._metas = [node.meta["val"] for node in nodes]
        self._runner = None if executor == "reference" else FunctionRunner(lowered.function, target)
        graphs = tuple(map(with_roundings, lowered.program.graphs))
        self._rounding = Program(graphs, lowered.program.recipes)
        self.launches = len(lowered.function.plan.launches)

    def forward(self, *tensors: Tensor) -> Any:
        """Return what the graph returns."""
        arrays = {name: to_numpy(each) for name, each in zip(self._names, tensors, strict=True)}
        if any(_is_wide(array) for array in arrays.values()):
            remark("a call", "not-lowered", "an integer does not fit 32 bits")
            return self._eager(*tensors)
        inputs = {name: arrays[name] for name in arrays if name in self._lowered.varying}
        if self._runner is None:
            merged = {
                name: inputs[name].reshape(self._rows_first(kind))
                for name, kind in self._lowered.program.main.input_types.items()
            }
            found = interpret(self._rounding, {**arrays, **merged})
        else:
            results = tuple(
                TensorType(storage_dtype(DTYPES[str(meta.dtype)]), tuple(meta.shape))
                for meta in self._metas
            )
            found = self._runner.run(inputs, arrays, results)
        tensors_found = [
            to_torch(array, meta) for array, meta in zip(found, self._metas, strict=True)
        ]
        return tensors_found[0] if self._single else tuple(tensors_found)

    def _rows_first(self, kind: TensorType) -> tuple[int, ...]:
        rows = self._lowered.function.plan.capacities.rows
        return tuple(map(int, kind.substitute({"rows": rows}).shape))


def _is_wide(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype != np.int64 or not array.size:
        return False
    bounds = np.iinfo(np.int32)
    return bool(array.min() < bounds.min or array.max() > bounds.max)
