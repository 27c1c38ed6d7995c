"""Reshapes, transposes, slices, joins and repetitions that cancel or combine."""

from itertools import pairwise
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Concat, Expand, Linear, Reshape, Slice, Transpose
from ascendfx.ir.size import Dim, simplify_size


def reshape(b: GraphBuilder, op: Reshape, operands: tuple[Value, ...]) -> Value | None:
    """``reshape x`` to its own shape is x; the first of two reshapes does not matter."""
    (x,) = operands
    if b.type_of(x).shape == op.shape:
        return x
    if isinstance(b.op_of(x), Reshape):
        return b.add(op, *b.operands_of(x))
    return None


def reshape_before_linear(
    b: GraphBuilder, op: Reshape, operands: tuple[Value, ...]
) -> Value | None:
    """``reshape(linear(reshape(x)))``: a projection does not care how its rows are arranged."""
    (y,) = operands
    linear = b.op_of(y)
    if not isinstance(linear, Linear):
        return None
    x, weight = b.operands_of(y)
    if not isinstance(b.op_of(x), Reshape):
        return None
    (source,) = b.operands_of(x)
    if b.type_of(source).shape[-1:] != b.type_of(x).shape[-1:]:
        return None
    return b.add(op, b.add(linear, source, weight))


def transpose(b: GraphBuilder, op: Transpose, operands: tuple[Value, ...]) -> Value | None:
    """Two permutations are one; the identity is none."""
    (x,) = operands
    if isinstance(b.op_of(x), Transpose):
        first: Transpose = b.op_of(x)  # pyright: ignore[reportAssignmentType]
        combined = tuple(first.permutation[axis] for axis in op.permutation)
        return b.add(Transpose(combined), *b.operands_of(x))
    return x if op.permutation == tuple(range(len(op.permutation))) else None


def slice_(b: GraphBuilder, op: Slice, operands: tuple[Value, ...]) -> Value | None:
    """A complete slice is its operand."""
    (x,) = operands
    size = b.type_of(x).shape[op.axis]
    if op.start == 0 and op.stop == size and op.step == 1:
        return x
    return None


def slice_of_concat(b: GraphBuilder, op: Slice, operands: tuple[Value, ...]) -> Value | None:
    """A slice that lies in some parts of a join needs those parts only."""
    (x,) = operands
    join = b.op_of(x)
    if not isinstance(join, Concat) or join.axis != op.axis:
        return None
    parts: list[Value] = []
    first: Dim = 0
    end: Dim = 0
    for part in b.operands_of(x):
        begin, end = end, simplify_size(end + b.type_of(part).shape[op.axis])
        if _at_most(end, op.start) or _at_most(op.stop, begin):
            continue
        if not parts:
            first = begin
        parts.append(part)
    if not parts or len(parts) == len(b.operands_of(x)):
        return None
    inner = parts[0] if len(parts) == 1 else b.add(join, *parts)
    start, stop = simplify_size(op.start - first), simplify_size(op.stop - first)
    return b.add(Slice(op.axis, start, stop, op.step), inner)


def _at_most(a: Dim, c: Dim) -> bool:
    difference = simplify_size(c - a)
    return difference >= 0 if isinstance(difference, int) else bool(difference.is_nonnegative)


def concat(b: GraphBuilder, op: Concat, operands: tuple[Value, ...]) -> Value | None:
    """One part is itself; neighbouring slices are one slice."""
    if len(operands) == 1:
        return operands[0]
    for i, (left, right) in enumerate(pairwise(operands)):
        joined = _join_slices(b, op.axis, left, right)
        if joined is not None:
            rest = (*operands[:i], joined, *operands[i + 2 :])
            return b.add(op, *rest) if len(rest) > 1 else joined
    return None


def _join_slices(b: GraphBuilder, axis: int, left: Value, right: Value) -> Value | None:
    first, second = b.op_of(left), b.op_of(right)
    if not isinstance(first, Slice) or not isinstance(second, Slice):
        return None
    neighbours = (
        b.operands_of(left) == b.operands_of(right)
        and first.axis == second.axis == axis
        and first.step == second.step == 1
        and first.stop == second.start
    )
    if not neighbours:
        return None
    return b.add(Slice(axis, first.start, second.stop), *b.operands_of(left))


def expand(b: GraphBuilder, op: Expand, operands: tuple[Value, ...]) -> Value | None:
    """Repetition to the same shape is none; two repetitions are one."""
    (x,) = operands
    if b.type_of(x).shape == op.shape:
        return x
    if isinstance(b.op_of(x), Expand):
        return b.add(op, *b.operands_of(x))
    return None


TABLE: dict[type[Op], tuple[Any, ...]] = {
    Concat: (concat,),
    Expand: (expand,),
    Reshape: (reshape, reshape_before_linear),
    Slice: (slice_, slice_of_concat),
    Transpose: (transpose,),
}
