"""Numbers that are made of cached codes: what attention, or one copy, can do by itself."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ascendfx.codegen.ascendc.lowering.view import View
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import CacheRead, Cast, Multiply
from ascendfx.ir.size import product
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class CachedCodes:
    """``numbers = round(codes * scales)`` of all tokens that a table names.

    Attributes:
        codes: The cache of codes, ``i8[blocks, block, d]``.
        scales: The cache of their scales, ``f32[blocks, block, 1]``.
        table: The blocks of each request.
        covers: Positions of the operations between reading and numbers, the numbers last.
    """

    codes: Value
    scales: Value
    table: Value
    covers: tuple[int, ...]


def find_cached_codes(
    graph: Graph, views: Mapping[Value, View], constants: Collection[int]
) -> dict[int, CachedCodes]:
    """Return what is made of cached codes, by the position of its numbers."""
    found: dict[int, CachedCodes] = {}
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Multiply) and position not in constants:
            made = _product(graph, views, position, *node.operands)
            if made is not None:
                found[made.covers[-1]] = made
    return found


def _product(
    graph: Graph, views: Mapping[Value, View], position: int, wide: Value, scales: Value
) -> CachedCodes | None:
    widened = graph.nodes[wide.node]
    if not isinstance(widened.op, Cast) or widened.op.dtype is not DType.F32:
        return None
    reads = [_read(graph, views, each) for each in (widened.operands[0], scales)]
    if None in reads or graph.use_count(wide) != 1:
        return None
    nodes = [graph.nodes[read] for read in reads if read is not None]
    kinds = [graph.type_of(node.operands[0]) for node in nodes]
    of_codes = kinds[0].dtype is DType.I8 and kinds[1].dtype is DType.F32
    by_token = kinds[1].shape == (*kinds[0].shape[:2], 1)
    if not of_codes or not by_token or nodes[0].operands[1] != nodes[1].operands[1]:
        return None
    covers = (wide.node, position, *_rounding(graph, Value(position)))
    return CachedCodes(nodes[0].operands[0], nodes[1].operands[0], nodes[0].operands[1], covers)


def _read(graph: Graph, views: Mapping[Value, View], value: Value) -> int | None:
    """Return the position of the node that read all of a value from a cache."""
    view = views[value]
    read = graph.nodes[view.root.node]
    whole = product(view.shape) == product(read.types[0].shape) and view.offset == 0
    return view.root.node if isinstance(read.op, CacheRead) and whole else None


def _rounding(graph: Graph, numbers: Value) -> tuple[int, ...]:
    """Return the position of a cast to bf16, if nothing else reads the numbers."""
    users = graph.uses.get(numbers, ())
    if len(users) != 1 or numbers in graph.outputs:
        return ()
    return users if graph.nodes[users[0]].op == Cast(DType.BF16) else ()
