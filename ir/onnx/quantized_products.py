"""Projections of codes in a program, as `QuantizeLinear` and `DequantizeLinear` see them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import DType

_BASE = 16.0
"""Of the digits of codes."""


@dataclass(frozen=True, slots=True)
class QuantizedRows:
    """Codes ``i8[*b, k]``, the nearest whole numbers to ``numbers / scale``.

    Attributes:
        numbers: ``f32[*b, k]``.
        scale: ``f32[*b, 1]``.
    """

    numbers: Value
    scale: Value


@dataclass(frozen=True, slots=True)
class QuantizedProduct:
    """``(c D^T) s t`` of codes ``c`` and ``D``, scales ``s`` by row and ``t`` by channel.

    Attributes:
        node: The product of codes, `Linear` or `GroupedLinear`.
        scale: ``s``, ``f32[*b, 1]``.
        channels: ``t``, ``f32[.., n]``, of experts for each of them.
        digits: What was quantized, if ``c`` are digits of codes; None: they are ``i8``.
        taken: Which rows of these, ``[*b]``; None: all.
    """

    node: Node
    scale: Value
    channels: Value
    digits: QuantizedRows | None = None
    taken: Value | None = None


def rows_at(graph: Graph, position: int) -> QuantizedRows | None:
    """Return what a node quantizes: ``cast(round(divide))``; None if it is something else."""
    node = graph.nodes[position]
    if not isinstance(node.op, ops.Cast) or node.types[0].dtype is not DType.I8:
        return None
    return _rounded(graph, node)


def _rounded(graph: Graph, codes: Node) -> QuantizedRows | None:
    """Return what codes are the nearest whole numbers of."""
    whole = _made_by(graph, codes.operands[0], ops.Round)
    ratio = _made_by(graph, whole.operands[0], ops.Divide) if whole else None
    if ratio is None or ratio.types[0].dtype is not DType.F32:
        return None
    numbers, scale = ratio.operands
    rows = graph.type_of(numbers).shape
    same = rows == ratio.types[0].shape and isinstance(rows[-1], int)
    return QuantizedRows(numbers, scale) if same and _is_by_row(graph, scale, rows) else None


def product_at(graph: Graph, position: int) -> QuantizedProduct | None:
    """Return the product of codes whose scaled form a node is; None if it is something else."""
    node = graph.nodes[position]
    if not isinstance(node.op, ops.Multiply) or node.types[0].dtype is not DType.F32:
        return None
    for scaled, by_channel in _both_ways(node):
        inner = _made_by(graph, scaled, ops.Multiply)
        for total, by_row in _both_ways(inner) if inner else ():
            product = _product_of(graph, total)
            channels = _channels(graph, product, by_channel) if product else None
            if product and channels and _is_by_row(graph, by_row, node.types[0].shape):
                found = QuantizedProduct(product, by_row, channels)
                return found if not _in_pairs(product) else _with_digits(graph, found)
    return None


def _product_of(graph: Graph, total: Value) -> Node | None:
    """Return the product whose sums of codes are in a value, as floats."""
    joined = _made_by(graph, total, ops.Add)
    if joined is None:
        wide = _made_by(graph, total, ops.Cast)
        product = _projection(graph, wide.operands[0]) if wide else None
        known = product and graph.type_of(product.operands[0]).dtype is DType.I8
        return product if known else None
    for raised, low in _both_ways(joined):
        high = _made_by(graph, raised, ops.Multiply)
        weight = _made_by(graph, high.operands[1], ops.Constant) if high else None
        if high and weight and getattr(weight.op, "value", None) == _BASE:
            sums = _digit(graph, high.operands[0], 0)
            if sums and sums == _digit(graph, low, 1):
                return _projection(graph, sums)
    return None


def _digit(graph: Graph, value: Value, number: int) -> Value | None:
    """Return the sums ``[*b, 2, n]`` of which a value is the part of one digit."""
    node = _made_by(graph, value, ops.Cast)
    node = _made_by(graph, node.operands[0], ops.Reshape) if node else None
    node = _made_by(graph, node.operands[0], ops.Slice) if node else None
    if node is None or not isinstance(node.op, ops.Slice):
        return None
    axis = node.types[0].rank - 2
    return node.operands[0] if node.op == ops.Slice(axis, number, number + 1) else None


def _projection(graph: Graph, value: Value) -> Node | None:
    return _made_by(graph, value, ops.Linear, ops.GroupedLinear)


def _in_pairs(product: Node) -> bool:
    return isinstance(product.op, ops.Linear | ops.GroupedLinear) and product.op.pairs


def _with_digits(graph: Graph, found: QuantizedProduct) -> QuantizedProduct | None:
    digits, taken = found.node.operands[0], None
    gathered = _made_by(graph, digits, ops.GatherRows)
    if gathered:
        digits, taken = gathered.operands
    split = _made_by(graph, digits, ops.SplitCodes)
    rows = _rounded(graph, split) if split else None
    return replace(found, digits=rows, taken=taken) if rows else None


def _channels(graph: Graph, product: Node, by_channel: Value) -> Value | None:
    """Return scales of the shape of the weight without its last axis."""
    weight = graph.type_of(product.operands[1])
    if isinstance(product.op, ops.GroupedLinear):
        taken = _made_by(graph, by_channel, ops.GatherRows)
        groups = _made_by(graph, taken.operands[1], ops.RowGroups) if taken else None
        if taken is None or groups is None or groups.operands[0] != product.operands[2]:
            return None
        by_channel = taken.operands[0]
    kind = graph.type_of(by_channel)
    return by_channel if kind.shape == weight.shape[:-1] and kind.dtype is DType.F32 else None


def _is_by_row(graph: Graph, scale: Value, rows: tuple[Dim, ...]) -> bool:
    kind = graph.type_of(scale)
    return kind.dtype is DType.F32 and kind.shape == (*rows[:-1], 1)


def _both_ways(node: Node) -> Iterator[tuple[Value, Value]]:
    first, second = node.operands
    yield first, second
    yield second, first


def _made_by(graph: Graph, value: Value, *kinds: type) -> Node | None:
    node = graph.nodes[value.node]
    return node if isinstance(node.op, kinds) else None
