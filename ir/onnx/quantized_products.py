"""Projections of codes in a program, as `QuantizeLinear` and `DequantizeLinear` see them."""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.tensor_type import DType


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
    """

    node: Node
    scale: Value
    channels: Value


def rows_at(graph: Graph, position: int) -> QuantizedRows | None:
    """Return what a node quantizes: ``cast(round(divide))``; None if it is something else."""
    node = graph.nodes[position]
    if not isinstance(node.op, ops.Cast) or node.types[0].dtype is not DType.I8:
        return None
    whole = _made_by(graph, node.operands[0], ops.Round)
    ratio = _made_by(graph, whole.operands[0], ops.Divide) if whole else None
    if ratio is None or ratio.types[0].dtype is not DType.F32:
        return None
    numbers, scale = ratio.operands
    same = graph.type_of(numbers).shape == node.types[0].shape
    return QuantizedRows(numbers, scale) if same and _is_by_row(graph, scale, node) else None


def product_at(graph: Graph, position: int) -> QuantizedProduct | None:
    """Return the product of codes whose scaled form a node is; None if it is something else."""
    node = graph.nodes[position]
    if not isinstance(node.op, ops.Multiply) or node.types[0].dtype is not DType.F32:
        return None
    for scaled, by_channel in _both_ways(node):
        inner = _made_by(graph, scaled, ops.Multiply)
        for total, by_row in _both_ways(inner) if inner else ():
            wide = _made_by(graph, total, ops.Cast)
            product = wide and _made_by(graph, wide.operands[0], ops.Linear, ops.GroupedLinear)
            if product and graph.type_of(product.operands[0]).dtype is DType.I8:
                channels = _channels(graph, product, by_channel)
                if channels and _is_by_row(graph, by_row, product):
                    return QuantizedProduct(product, by_row, channels)
    return None


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


def _is_by_row(graph: Graph, scale: Value, node: Node) -> bool:
    kind = graph.type_of(scale)
    return kind.dtype is DType.F32 and kind.shape == (*node.types[0].shape[:-1], 1)


def _both_ways(node: Node) -> Iterator[tuple[Value, Value]]:
    first, second = node.operands
    yield first, second
    yield second, first


def _made_by(graph: Graph, value: Value, *kinds: type) -> Node | None:
    node = graph.nodes[value.node]
    return node if isinstance(node.op, kinds) else None
