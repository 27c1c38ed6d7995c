"""Move transposes towards the inputs until they meet their inverse."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Cast,
    Concat,
    Expand,
    Linear,
    Reshape,
    RmsNorm,
    Rotary,
    Slice,
    Swiglu,
    Transpose,
)
from ascendfx.ir.pointwise import Binary, Unary
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.reshape_groups import AxisGroup, axis_groups
from ascendfx.passes.simplify import Simplify

Permutation = tuple[int, ...]
Hoist = Callable[[GraphBuilder, Any, tuple[Value, ...], Permutation], Value | None]
"""``hoist(builder, op, operands, permutation)``: ``transpose(op(operands))`` without a transpose
at the end, or None if it cannot pass."""


@dataclass(frozen=True, slots=True)
class HoistTransposes(GraphPass):
    """Leave no transpose between two token-major tensors: activations become ``[b, t, h, d]``.

    ``transpose(f(x))`` becomes ``f'(transpose(x))`` for everything that works element by element,
    on the last axis only, or on named axes; `Simplify` then cancels what meets its inverse.

    Attributes:
        max_rounds: Rounds after which the moves are considered cyclic.
    """

    name: ClassVar[str] = "hoist-transposes"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    max_rounds: int = 100

    def run_graph(self, graph: Graph) -> GraphResult:
        """Move until nothing moves.

        Raises:
            AssertionError: ``max_rounds`` were not enough.
        """
        first, count = graph, 0
        for _ in range(self.max_rounds):
            after, moved = _round(graph)
            if not moved:
                return GraphResult(graph, {"transposes moved": count} if graph is not first else {})
            count += moved
            graph = Simplify().run_graph(after).graph
        raise AssertionError(f"no fixed point after {self.max_rounds} rounds")


def _round(graph: Graph) -> tuple[Graph, int]:
    count = 0

    def emit(
        builder: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        nonlocal count
        if not isinstance(node.op, Transpose):
            return None
        result = _without_transpose(builder, operands[0], node.op.permutation)
        if result is None:
            return None
        count += 1
        return (result,)

    return rebuild(graph, emit), count


def _without_transpose(b: GraphBuilder, x: Value, permutation: Permutation) -> Value | None:
    """Return ``transpose x`` with the transpose moved behind, or written as a reshape."""
    op = b.op_of(x)
    hoist = _HOISTS.get(type(op), _pointwise if isinstance(op, Unary | Binary) else None)
    result = hoist(b, op, b.operands_of(x), permutation) if hoist else None
    if result is not None:
        return result
    shape = b.type_of(x).shape
    wide = [axis for axis in permutation if shape[axis] != 1]
    if wide != sorted(wide):
        return None
    return b.add(Reshape(tuple(shape[axis] for axis in permutation)), x)


def transposed(b: GraphBuilder, x: Value, permutation: Permutation) -> Value:
    """Return ``x`` with its axes permuted as those of a result it broadcasts to.

    Axes that ``x`` lacks count as size one.
    """
    shape = b.type_of(x).shape
    missing = len(permutation) - len(shape)
    if not shape:
        return x
    if missing:
        x = b.add(Reshape((1,) * missing + shape), x)
    return b.add(Transpose(permutation), x)


def _pointwise(
    b: GraphBuilder, op: Op, operands: tuple[Value, ...], permutation: Permutation
) -> Value | None:
    return b.add(op, *(transposed(b, x, permutation) for x in operands))


def _slice(
    b: GraphBuilder, op: Slice, operands: tuple[Value, ...], permutation: Permutation
) -> Value | None:
    moved = replace(op, axis=permutation.index(op.axis))
    return b.add(moved, transposed(b, operands[0], permutation))


def _concat(
    b: GraphBuilder, op: Concat, operands: tuple[Value, ...], permutation: Permutation
) -> Value | None:
    parts = (transposed(b, x, permutation) for x in operands)
    return b.add(Concat(permutation.index(op.axis)), *parts)


def _expand(
    b: GraphBuilder, op: Expand, operands: tuple[Value, ...], permutation: Permutation
) -> Value | None:
    shape = tuple(op.shape[axis] for axis in permutation)
    return b.add(Expand(shape), transposed(b, operands[0], permutation))


def _last_axis(
    b: GraphBuilder, op: Op, operands: tuple[Value, ...], permutation: Permutation
) -> Value | None:
    if permutation[-1] != len(permutation) - 1:
        return None
    x, *others = operands
    return b.add(op, transposed(b, x, permutation), *others)


def _rotary(
    b: GraphBuilder, op: Rotary, operands: tuple[Value, ...], permutation: Permutation
) -> Value | None:
    if permutation[-1] != len(permutation) - 1:
        return None
    return b.add(op, *(transposed(b, x, permutation) for x in operands))


def _reshape(
    b: GraphBuilder, op: Reshape, operands: tuple[Value, ...], permutation: Permutation
) -> Value | None:
    """Permute the groups of axes that stay together, if the permutation keeps them together."""
    shape = b.type_of(operands[0]).shape
    groups = _without_dropped_axes(axis_groups(shape, op.shape))
    by_first = {group.after[0]: group for group in groups}
    before: list[int] = []
    place = 0
    while place < len(permutation):
        group = by_first.get(permutation[place])
        if group is None or permutation[place : place + len(group.after)] != group.after:
            return None
        before += group.before
        place += len(group.after)
    if before == sorted(before):
        return b.add(Reshape(tuple(op.shape[axis] for axis in permutation)), *operands)
    x = b.add(Transpose(tuple(before)), *operands)
    return b.add(Reshape(tuple(op.shape[axis] for axis in permutation)), x)


def _without_dropped_axes(groups: tuple[AxisGroup, ...]) -> list[AxisGroup]:
    """Let axes of size one that disappear go along with the group behind them, or before."""
    kept: list[AxisGroup] = []
    dropped: tuple[int, ...] = ()
    for group in groups:
        if group.after:
            kept.append(AxisGroup(dropped + group.before, group.after))
            dropped = ()
        else:
            dropped += group.before
    if dropped and kept:
        kept[-1] = AxisGroup(kept[-1].before + dropped, kept[-1].after)
    return kept


_HOISTS: Mapping[type[Op], Hoist] = {
    Cast: _pointwise,
    Concat: _concat,
    Expand: _expand,
    Linear: _last_axis,
    Reshape: _reshape,
    RmsNorm: _last_axis,
    Rotary: _rotary,
    Slice: _slice,
    Swiglu: _pointwise,
}
