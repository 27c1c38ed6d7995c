"""Parameters that are rotations: orthogonal matrices, known by their names."""

import numpy as np

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Cast, Param, Transpose

_SUFFIX = "#rotation"


def rotation_name(place: str) -> str:
    """Return the name of the rotation at a place of a model."""
    return f"{place}{_SUFFIX}"


def is_rotation_name(name: str) -> bool:
    """Whether a parameter is a rotation: who delivers it has seen to that it is orthogonal."""
    return name.endswith(_SUFFIX)


def is_rotation(graph: Graph, value: Value) -> bool:
    """Whether a value is a rotation, in any format, or one that is turned back (transposed)."""
    op = graph.op_of(value)
    while isinstance(op, Cast) or (isinstance(op, Transpose) and op.permutation == (1, 0)):
        (value,) = graph.nodes[value.node].operands
        op = graph.op_of(value)
    return isinstance(op, Param) and is_rotation_name(op.name)


def random_rotation(random: np.random.Generator, size: int, *, whole: bool = False) -> Array:
    """Return an orthogonal matrix ``[size, size]``; with ``whole`` one of 0, 1 and -1."""
    if whole:
        return np.asarray(np.eye(size)[random.permutation(size)] * random.choice([-1.0, 1.0], size))
    return np.asarray(np.linalg.qr(random.standard_normal((size, size)))[0])
