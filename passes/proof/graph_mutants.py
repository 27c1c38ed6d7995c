"""Programs that differ from a given one in a single detail: near misses for matchers."""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from itertools import islice, permutations
from typing import Any

import numpy as np
import sympy

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    Call,
    Divide,
    Input,
    Maximum,
    Minimum,
    Multiply,
    Param,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Rsqrt,
    Sigmoid,
    Silu,
    Softmax,
    Sqrt,
    Subtract,
)
from ascendfx.ir.text.printer import print_operation
from ascendfx.passes.rebuild import rebuild

_TINY = 2.0**-70
"""The square of a number that is so much smaller underflows in single precision."""
_FAMILIES = (
    (Add, Subtract, Multiply, Divide, Maximum, Minimum),
    (ReduceSum, ReduceMean, ReduceMax),
    (Sigmoid, Silu, Sqrt, Rsqrt),
)


_Change = tuple[int, Op, tuple[Value, ...]]
"""Position, the operation and the operands that stand there now."""


def mutants(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Yield a description and a well-typed graph for every single change."""
    yield from _built(graph, _changes(graph))


def some_mutants(graph: Graph, *, count: int, seed: int) -> list[tuple[str, Graph]]:
    """Return ``count`` of the mutants, chosen at random."""
    changes = list(_changes(graph))
    order = np.random.default_rng(seed).permutation(len(changes))
    return list(islice(_built(graph, (changes[i] for i in order)), count))


def _built(graph: Graph, changes: Iterable[_Change]) -> Iterator[tuple[str, Graph]]:
    for position, op, operands in changes:
        changed = _replaced(graph, position, op, operands)
        if changed is not None:
            node = graph.nodes[position]
            was, now = print_operation(node.op, node.operands), print_operation(op, operands)
            yield f"%{position} {was} -> {now}", changed


def _changes(graph: Graph) -> Iterator[_Change]:
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Input | Param | Call):
            continue
        yield from ((position, op, node.operands) for op in variants(node.op))
        for operands in _other_operands(graph, position, node):
            yield position, node.op, operands


def variants(op: Op) -> Iterator[Op]:
    """Yield operations that differ in one attribute, or in kind."""
    for field in dataclasses.fields(op):
        for value in _neighbours(getattr(op, field.name)):
            yield dataclasses.replace(op, **{field.name: value})
    for family in _FAMILIES:
        if type(op) in family:
            values = {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}
            yield from (other(**values) for other in family if other is not type(op))
    if isinstance(op, Sigmoid):
        yield Softmax(1)
    if isinstance(op, Softmax):
        yield Sigmoid()


def _neighbours(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int():
            yield from (value - 1, value + 1)
        case float() if math.isinf(value):
            yield from (0.0, -1.0)
        case float():
            near = (value * 1.5, -value, -value / 8, value + 1, 0.0)
            far = (value * _TINY, value / _TINY)
            yield from (each for each in (*near, *far) if each != value)
        case sympy.Expr():
            yield value - 1
        case tuple():
            for i, each in enumerate(value):
                for other in _neighbours(each):
                    yield (*value[:i], other, *value[i + 1 :])
            if 1 < len(value) <= 4:
                yield from (p for p in permutations(value) if p != value)
        case _:
            pass


def _other_operands(graph: Graph, position: int, node: Node) -> Iterator[tuple[Value, ...]]:
    """Yield swapped operands, and each operand replaced by neighbours of the same type."""
    if len(node.operands) == 2 and node.operands[0] != node.operands[1]:
        yield node.operands[::-1]
    for i, operand in enumerate(node.operands):
        kind = graph.type_of(operand)
        same = [
            Value(p, r)
            for p in range(position)
            for r, each in enumerate(graph.nodes[p].types)
            if each == kind and Value(p, r) != operand
        ]
        for other in same[-4:]:
            yield (*node.operands[:i], other, *node.operands[i + 1 :])


def _replaced(graph: Graph, place: int, op: Op, operands: tuple[Value, ...]) -> Graph | None:
    def emit(
        builder: GraphBuilder, position: int, node: Node, moved: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if position != place:
            return None
        return builder.add_multi(op, *operands)

    try:
        return rebuild(graph, emit)
    except (GraphError, ValueError, TypeError):
        return None
