"""Casts that round on purpose: to a narrower format, and the same numbers in a wider one again.

Over the reals such a pair of casts is the identity, and formats in between are no obligation
elsewhere: kernels keep f32 where a graph says bf16. But whoever narrows a number and widens it
again wants its rounding: to split it into a high and a low part, or to imitate a quantization.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops.cast import Cast
from ascendfx.ir.ops.concat import Concat
from ascendfx.ir.ops.expand import Expand
from ascendfx.ir.ops.gather_rows import GatherRows
from ascendfx.ir.ops.maximum import Maximum
from ascendfx.ir.ops.minimum import Minimum
from ascendfx.ir.ops.negate import Negate
from ascendfx.ir.ops.reduce_max import ReduceMax
from ascendfx.ir.ops.relu import Relu
from ascendfx.ir.ops.reshape import Reshape
from ascendfx.ir.ops.select import Select
from ascendfx.ir.ops.slice import Slice
from ascendfx.ir.ops.take_along import TakeAlong
from ascendfx.ir.ops.transpose import Transpose
from ascendfx.ir.tensor_type import DType

_PASS_ON: tuple[type[Op], ...] = (
    *(Concat, Expand, GatherRows, Reshape, Slice, TakeAlong, Transpose),
    *(Maximum, Minimum, Negate, ReduceMax, Relu, Select),
)
"""Operations whose results are numbers that they were given, up to the sign."""
_WIDER = {
    DType.F16: (DType.F32, DType.F64),
    DType.BF16: (DType.F32, DType.F64),
    DType.F32: (DType.F64,),
}


@dataclass(frozen=True, slots=True)
class RoundingCast(Cast):
    """A cast whose reference rounds; it stands in no program, only in what is evaluated."""

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Round to nearest even, as the format does."""
        (a,) = operands
        if a.dtype == object:
            return (a,)
        with np.errstate(over="ignore", invalid="ignore"):
            return (_nearest(np.asarray(a, np.float64), self.dtype),)


def kept_roundings(graph: Graph) -> frozenset[int]:
    """Return the positions of the casts of a graph that have to round."""
    return frozenset(
        position
        for position, node in enumerate(graph.nodes)
        if isinstance(node.op, Cast)
        and node.op.dtype in _WIDER
        and _narrows(graph, node, node.op.dtype)
        and _is_widened(graph, Value(position), node.op.dtype)
    )


def with_roundings(graph: Graph) -> Graph:
    """Return a graph to be evaluated in which the casts that have to round do so."""
    kept = kept_roundings(graph)
    if not kept:
        return graph
    nodes = (
        replace(node, op=RoundingCast(node.op.dtype))
        if position in kept and isinstance(node.op, Cast)
        else node
        for position, node in enumerate(graph.nodes)
    )
    return replace(graph, nodes=tuple(nodes))


def _narrows(graph: Graph, node: Node, dtype: DType) -> bool:
    source = graph.type_of(node.operands[0]).dtype
    return source.is_float and source is not dtype and dtype not in _WIDER.get(source, ())


def _is_widened(graph: Graph, value: Value, narrow: DType) -> bool:
    """Return whether the numbers of a value are read in a wider format."""
    pending, seen = [value], set[Value]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for position in graph.uses.get(value, ()):
            op = graph.nodes[position].op
            if isinstance(op, Cast):
                if op.dtype in _WIDER[narrow]:
                    return True
            elif isinstance(op, _PASS_ON) and graph.nodes[position].types[0].dtype is narrow:
                pending.append(Value(position))
    return False


def _nearest(values: Array, dtype: DType) -> Array:
    narrow = values if dtype is DType.F32 else narrow_to_odd(values)
    return narrow.astype(dtype.numpy).astype(np.float64)


def narrow_to_odd(value: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return f32 neighbours whose rounding to a narrower format equals that of ``value``.

    Rounding first to f32 and then to bf16, as `ml_dtypes` does, rounds twice and errs at midpoints.
    An inexact f32 result with an odd last bit keeps the side of the midpoint.
    Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms
    using rounding to odd", IEEE Transactions on Computers 57(4), 2008, theorem 1.
    """
    narrow = value.astype(np.float32)
    inexact = (narrow != value) & np.isfinite(narrow)
    outward = inexact & (np.abs(narrow.astype(np.float64)) > np.abs(value))
    bits = narrow.view(np.uint32) - outward.astype(np.uint32)
    return (bits | inexact.astype(np.uint32)).view(np.float32)
