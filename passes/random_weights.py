"""What a program reads from the checkpoint, and random numbers in its place."""

import numpy as np

from ascendfx.ir.graph import Graph
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, Param
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import TensorType


def checkpoint_types(program: Program) -> dict[str, TensorType]:
    """Return the type of each checkpoint key that a program reads, recipes followed."""
    kinds = _formals(program, program.main)
    for graph in program.graphs:
        for node in graph.nodes:
            if isinstance(node.op, Call):
                formals = _formals(program, program.by_name[node.op.callee])
                kinds |= {key: formals[name] for name, key in node.op.keys if name in formals}
    return kinds


def random_weights(program: Program, seed: int) -> dict[str, Array]:
    """Return normal numbers for every checkpoint key, divided by the root of the last axis.

    Signals then keep their size through a linear layer.
    """
    random = np.random.default_rng(seed)
    tensors: dict[str, Array] = {}
    for key, kind in checkpoint_types(program).items():
        shape = [bind_size(size, {}) for size in kind.shape]
        scale = np.sqrt(shape[-1]) if len(shape) > 1 else 1.0
        tensors[key] = random.standard_normal(shape) / max(scale, 1.0)
    return tensors


def _formals(program: Program, graph: Graph) -> dict[str, TensorType]:
    """Return the parameters of a function that the checkpoint supplies."""
    found: dict[str, TensorType] = {}
    pending = [graph]
    seen: set[str] = set()
    while pending:
        for node in pending.pop(0).nodes:
            if isinstance(node.op, Param) and node.op.name not in seen:
                seen.add(node.op.name)
                recipe = program.recipes.get((graph.name, node.op.name))
                if recipe is None:
                    found[node.op.name] = node.op.type
                else:
                    pending.append(recipe)
    return found
