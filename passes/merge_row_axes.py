"""From static ``[batch, tokens, ...]`` to ``[rows, ...]``, where rows do not see each other."""

import dataclasses
from collections.abc import Mapping
from math import prod
from typing import Any

from ascendfx.ir.diagnostic import GraphError, OpTypeError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Cast,
    CombineExperts,
    Concat,
    DispatchExperts,
    Expand,
    GatherRows,
    GroupedLinear,
    HeadLinear,
    Input,
    Linear,
    Matmul,
    Reshape,
    RmsNorm,
    RouteTopk,
    Select,
    Slice,
    Softmax,
    Swiglu,
    Transpose,
)
from ascendfx.ir.pointwise import Binary, Comparison, Unary
from ascendfx.ir.reduction import Reduction
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import TensorType
from ascendfx.ir.text.printer import print_node

ROWS = named_size("rows")

_POINTWISE = (Unary, Binary, Comparison, Select, Swiglu, Cast)
_OF_LAST_AXES: Mapping[type[Op], int] = {Linear: 1, HeadLinear: 2, RmsNorm: 1, RouteTopk: 1}
"""How many axes of the first operand the operation needs for itself; the others are rows."""

_EXPERTS = (CombineExperts, DispatchExperts, GatherRows, GroupedLinear)
"""What looks at all rows, and has exactly one row axis."""


def merge_row_axes(graph: Graph, rows: int) -> Graph:
    """Return the graph over ``rows``, which stands for all positions of the first axes.

    Every value becomes ``old.reshape(rows, *rest)``, or stays what it is if it depends on
    parameters alone. Nothing is guessed: an operation is kept only if that follows from those of
    its operands. Both graphs compute the same.

    Args:
        graph: Static shapes.
        rows: The product of the first axes of every input.

    Raises:
        GraphError: An operation mixes rows, or moves their axes.
    """
    return _Merger(graph, rows).run()


def count_of_rows(shape: tuple[int, ...], rows: int) -> int:
    """Return how many first axes make up the rows, 0 if none do."""
    return next((n for n in range(1, len(shape) + 1) if prod(shape[:n]) == rows), 0)


class _Merger:
    """`count` of a value: how many axes of its old type are its row axis; 0 for none."""

    def __init__(self, graph: Graph, rows: int) -> None:
        self._graph = graph
        self._rows = rows
        self._builder = GraphBuilder(graph.name)
        self._moved: dict[Value, Value] = {}
        self._count: dict[Value, int] = {}

    def run(self) -> Graph:
        for position, node in enumerate(self._graph.nodes):
            try:
                with self._builder.at(node.location):
                    results, count = self._emit(node)
                self._keep(position, node, results, count)
            except (_MixedError, OpTypeError) as error:
                raise GraphError(
                    "no-row-form",
                    f"{node.op.mnemonic}: {error}",
                    node.location,
                    excerpt=print_node(self._graph, position),
                    hint="kernels of a plain function work row by row",
                ) from error
        for value in self._graph.outputs:
            if not self._count[value]:
                node = self._graph.nodes[value.node]
                raise GraphError(
                    "no-row-form",
                    f"the result {self._graph.type_of(value)} has no rows",
                    node.location,
                    excerpt=print_node(self._graph, value.node),
                    hint="what depends on parameters alone needs no kernel",
                )
        return self._builder.build(*(self._moved[v] for v in self._graph.outputs))

    def _keep(self, position: int, node: Node, results: tuple[Value, ...], count: int) -> None:
        for i, (old, new) in enumerate(zip(node.types, results, strict=True)):
            found = self._builder.type_of(new)
            merged = count if found.names else 0
            if found.substitute({"rows": self._rows}) != _merged(old, merged):
                raise _MixedError(f"{old} would become {found}")
            self._moved[Value(position, i)] = new
            self._count[Value(position, i)] = merged

    def _emit(self, node: Node) -> tuple[tuple[Value, ...], int]:
        counts = [self._count[v] for v in node.operands]
        moved = [self._moved[v] for v in node.operands]
        if isinstance(node.op, Input):
            return self._input(node.op)
        varies = any(self._varies(v) for v in node.operands)
        if not varies:
            return self._builder.add_multi(node.op, *moved), 0
        match node.op:
            case Reshape(shape=shape):
                return self._reshape(moved[0], tuple(map(int, shape)), counts[0])
            case Matmul() if self._graph.type_of(node.operands[1]).rank == 2:
                return self._product(node, moved, counts)
            case _ if isinstance(node.op, _POINTWISE):
                return self._pointwise(node, moved, counts)
            case _ if isinstance(node.op, _EXPERTS):
                if any(count > 1 for count in counts):
                    raise _MixedError("it takes one row axis")
                return self._builder.add_multi(node.op, *moved), 1
            case _ if type(node.op) in _OF_LAST_AXES:
                return self._of_last_axes(node, moved, counts)
            case _:
                return self._along_axes(node, moved, counts)

    def _varies(self, value: Value) -> bool:
        needed = self._graph.needed((value,))
        return any(isinstance(self._graph.nodes[p].op, Input) for p in needed)

    def _input(self, op: Input) -> tuple[tuple[Value, ...], int]:
        shape = tuple(map(int, op.type.shape))
        count = count_of_rows(shape, self._rows)
        if not count:
            raise _MixedError(f"the first axes of the input {op.type} are not {self._rows} rows")
        kind = op.type.with_shape((ROWS, *shape[count:]))
        return (self._builder.add(Input(op.name, kind)),), count

    def _reshape(
        self, moved: Value, shape: tuple[int, ...], count: int
    ) -> tuple[tuple[Value, ...], int]:
        if not count:
            raise _MixedError("its operand has no rows")
        new = count_of_rows(shape, self._rows)
        if not new or self._first(moved) != ROWS:
            raise _MixedError(f"the {self._rows} rows are no leading axes of {shape}")
        wanted = (ROWS, *shape[new:])
        if self._builder.type_of(moved).shape == wanted:
            return (moved,), new
        return (self._builder.add(Reshape(wanted), moved),), new

    def _pointwise(
        self, node: Node, moved: list[Value], counts: list[int]
    ) -> tuple[tuple[Value, ...], int]:
        count = max(counts)
        rank = node.types[0].rank
        operands: list[Value] = []
        for value, new, own in zip(node.operands, moved, counts, strict=True):
            old = self._graph.type_of(value)
            if own and (own != count or old.rank != rank):
                raise _MixedError("operands have their rows on different axes")
            if not own and self._varies(value):
                raise _MixedError("an operand has no rows")
            operands.append(new if own else self._trailing(new, rank - count))
        return (self._builder.add(node.op, *operands),), count

    def _trailing(self, constant: Value, rank: int) -> Value:
        """Return a constant without the axes of size one that would stand at the rows."""
        shape = self._builder.type_of(constant).shape
        extra = len(shape) - rank
        if extra <= 0:
            return constant
        if any(size != 1 for size in shape[:extra]):
            raise _MixedError("a parameter differs from row to row")
        return self._builder.add(Reshape(shape[extra:]), constant)

    def _product(
        self, node: Node, moved: list[Value], counts: list[int]
    ) -> tuple[tuple[Value, ...], int]:
        """Return a product with a weight, as the cube unit takes it: ``[out, in]``."""
        free = self._graph.type_of(node.operands[0]).rank - 1
        if not 1 <= counts[0] <= free or self._varies(node.operands[1]):
            raise _MixedError("it mixes rows, or its weight is computed from them")
        weight = self._builder.add(Transpose((1, 0)), moved[1])
        return (self._builder.add(Linear(), moved[0], weight),), counts[0]

    def _of_last_axes(
        self, node: Node, moved: list[Value], counts: list[int]
    ) -> tuple[tuple[Value, ...], int]:
        needs = _OF_LAST_AXES[type(node.op)]
        free = self._graph.type_of(node.operands[0]).rank - needs
        if not 1 <= counts[0] <= free or any(self._varies(v) for v in node.operands[1:]):
            raise _MixedError("it mixes rows, or its weight is computed from them")
        return self._builder.add_multi(node.op, *moved), counts[0]

    def _along_axes(
        self, node: Node, moved: list[Value], counts: list[int]
    ) -> tuple[tuple[Value, ...], int]:
        count = counts[0]
        if not count or any(each != count for each in counts):
            raise _MixedError("operands have their rows on different axes")
        return self._builder.add_multi(_shifted(node.op, count), *moved), count

    def _first(self, value: Value) -> Any:
        return self._builder.type_of(value).shape[0]


class _MixedError(Exception):
    """Rows would meet."""


def _merged(old: TensorType, count: int) -> TensorType:
    if not count:
        return old
    return old.with_shape((prod(map(int, old.shape[:count])), *old.shape[count:]))


def _shifted(op: Op, count: int) -> Op:
    """Return ``op`` where the first ``count`` axes are one."""

    def shift(axis: int) -> int:
        if axis < count:
            raise _MixedError(f"it works along the row axis {axis}")
        return axis - count + 1

    match op:
        case Transpose(permutation=permutation):
            if permutation[:count] != tuple(range(count)):
                raise _MixedError("it moves the rows")
            return Transpose((0, *map(shift, permutation[count:])))
        case Reduction(axes=axes):
            return dataclasses.replace(op, axes=tuple(map(shift, axes)))
        case Concat() | Slice() | Softmax():
            return dataclasses.replace(op, axis=shift(op.axis))
        case Expand():
            raise _MixedError("it repeats rows")
        case _:
            raise _MixedError("it is not known to work row by row")
