"""Values that cannot be negative, by the operation that makes them."""

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Divide,
    Exp,
    Expand,
    GatherRows,
    Multiply,
    Power,
    Reciprocal,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Relu,
    Reshape,
    Round,
    RouteTopk,
    Rsqrt,
    Sigmoid,
    Slice,
    Softmax,
    Sqrt,
    Transpose,
)

_ALWAYS = (Exp, Relu, Rsqrt, Sigmoid, Softmax, Sqrt)
_AS_THE_FIRST_OPERAND = (
    Cast,
    Expand,
    GatherRows,
    Reciprocal,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Reshape,
    Round,
    Slice,
    Transpose,
)
_AS_BOTH_OPERANDS = (Add, Divide, Multiply)


def is_nonnegative(graph: Graph, value: Value) -> bool:
    """Say whether no element of ``value`` can be below zero; NaN does not count."""
    op, operands = graph.op_of(value), graph.nodes[value.node].operands
    if isinstance(op, Constant):
        return op.value >= 0
    if isinstance(op, _ALWAYS):
        return True
    if isinstance(op, RouteTopk):
        return value.result == 0 and op.scale >= 0
    if isinstance(op, Multiply) and operands[0] == operands[1]:
        return True
    if isinstance(op, Power):
        exponent = graph.op_of(operands[1])
        even = isinstance(exponent, Constant) and exponent.value % 2 == 0
        return even or is_nonnegative(graph, operands[0])
    if isinstance(op, _AS_THE_FIRST_OPERAND):
        return is_nonnegative(graph, operands[0])
    return isinstance(op, _AS_BOTH_OPERANDS) and all(is_nonnegative(graph, v) for v in operands)
