"""Which caches of a serving form hold vectors that are key and value at once."""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import (
    CacheRead,
    CacheWrite,
    Cast,
    Concat,
    Input,
    Param,
    RaggedAttention,
    Reshape,
    Rotary,
    Slice,
    Transpose,
)
from ascendfx.passes.remark import Remark

_MOVES = (Cast, Concat, Reshape, Slice, Transpose)
_ONE_VECTOR = 3
"""Axes of a cache of one vector per token: blocks, tokens of a block, numbers."""


@dataclass(frozen=True, slots=True)
class LatentCache:
    """A cache of one function whose rows are read as keys and as values.

    Attributes:
        name: Of the input.
        write: Position of the node that stores new rows.
        reads: Positions of the nodes that read it, new rows included.
        parameter: The parameter that is nearest to the stored rows; empty without one.
    """

    name: str
    write: int
    reads: tuple[int, ...]
    parameter: str


def latent_caches(graph: Graph) -> tuple[LatentCache, ...]:
    """Return the caches of a function whose rows serve keys and values, in order.

    Rows are one vector per token, and no part of them is rotated: a rotary part has numbers of
    another size, and would take most of the codes of a scale for both.
    """
    return tuple(
        LatentCache(cache.name, write, reads, nearest_parameter(graph, rows))
        for cache, write, reads, rows in _latents(graph)
        if not is_rotated(graph, rows)
    )


def rotated_remarks(graph: Graph) -> Iterator[Remark]:
    """Yield the caches that keep their format because a part of their rows is rotated."""
    for cache, write, _, rows in _latents(graph):
        if is_rotated(graph, rows):
            what = f"`{cache.name}` of @{graph.name} holds rotated keys beside what is not rotated"
            yield Remark(f"quantize-cache: {what}", graph.nodes[write].location)


def _latents(graph: Graph) -> Iterator[tuple[Input, int, tuple[int, ...], Value]]:
    for position, node in enumerate(graph.nodes):
        if not isinstance(node.op, CacheWrite):
            continue
        cache, _, rows = node.operands
        source, kind = graph.op_of(cache), graph.type_of(cache)
        users = graph.uses.get(Value(position), ())
        reads = tuple(user for user in users if isinstance(graph.nodes[user].op, CacheRead))
        vectors = kind.rank == _ONE_VECTOR and kind.dtype.is_float and kind.shape[-1] != 1
        whole = isinstance(source, Input) and graph.use_count(cache) == 1 and reads == users
        if isinstance(source, Input) and vectors and whole and _serves_both(graph, reads):
            yield source, position, reads, rows


def _serves_both(graph: Graph, reads: tuple[int, ...]) -> bool:
    """Return whether some attention has keys and values of what is read."""
    behind = set(reads)
    for position, node in enumerate(graph.nodes):
        inside = {value for value in node.operands if value.node in behind}
        if not isinstance(node.op, RaggedAttention):
            if inside:
                behind.add(position)
            continue
        roles = node.op.roles(node.operands)
        if roles.values in inside and not inside.isdisjoint(roles.keys):
            return True
    return False


def is_rotated(graph: Graph, rows: Value) -> bool:
    """Return whether some of the numbers of rows were rotated by position, and only moved since."""
    op = graph.op_of(rows)
    if isinstance(op, Rotary):
        return True
    operands = graph.nodes[rows.node].operands
    return isinstance(op, _MOVES) and any(is_rotated(graph, each) for each in operands)


def nearest_parameter(graph: Graph, rows: Value) -> str:
    """Return the name of the parameter that is read last on the way to rows; empty without one."""
    pending = [rows.node]
    seen: set[int] = set()
    while pending:
        position = pending.pop(0)
        node = graph.nodes[position]
        if isinstance(node.op, Param):
            return node.op.name
        seen.add(position)
        pending += [each.node for each in node.operands if each.node not in seen]
    return ""
