"""Random tensors for every input and checkpoint key of a program."""

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.rotation_parameter import is_rotation_name, random_rotation

_SIZES = {"batch": 2, "tokens": 5, "rows": 6, "requests": 2, "context": 7}
_OTHER_SIZE = 3
"""Of any other name."""


def random_tensors(
    program: Program,
    *,
    seed: int,
    sizes: dict[str, int] | None = None,
    ids: int = 3,
) -> dict[str, Array]:
    """Return normal numbers for floats, scaled by the last axis, and ids below ``ids``."""
    random = np.random.default_rng(seed)
    kinds = program.main.input_types | checkpoint_types(program)
    known = {**example_sizes(program), **(sizes or {})}
    return {
        name: random_rotation(random, bind_size(kind.shape[0], {}))
        if is_rotation_name(name)
        else _tensor(random, kind, known, ids)
        for name, kind in kinds.items()
    }


def example_sizes(program: Program) -> dict[str, int]:
    """Return a size for every name in the types of the program."""
    names = {
        name
        for graph in program.graphs
        for node in graph.nodes
        for kind in node.types
        for name in kind.names
    }
    return {**dict.fromkeys(sorted(names), _OTHER_SIZE), **_SIZES}


def _tensor(
    random: np.random.Generator, kind: TensorType, sizes: dict[str, int], ids: int
) -> Array:
    shape = [bind_size(d, sizes) for d in kind.shape]
    if kind.dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if not kind.dtype.is_float:
        return random.integers(0, ids, shape)
    scale = np.sqrt(shape[-1]) if len(shape) > 1 else 1.0
    return random.standard_normal(shape) / scale
