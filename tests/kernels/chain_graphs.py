"""Graphs that models make chains of, over a number of rows."""

from collections.abc import Callable

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.tensor_type import DType, TensorType

TINY = 2.0**-100
"""A row that is smaller has this scale times 127."""


class ChainGraph:
    """A graph under construction whose values all have one format."""

    def __init__(self, rows: int, dtype: DType) -> None:
        self.rows = rows
        self.dtype = dtype
        self.builder = GraphBuilder("chain")
        self._count = 0

    def input(self, *shape: int, dtype: DType | None = None) -> Value:
        """Add an input ``[rows, *shape]``."""
        self._count += 1
        kind = TensorType(dtype or self.dtype, (self.rows, *shape))
        return self.builder.add(ops.Input(f"input{self._count}", kind))

    def param(self, *shape: int, dtype: DType | None = None) -> Value:
        """Add a parameter."""
        self._count += 1
        return self.builder.add(
            ops.Param(f"param{self._count}", TensorType(dtype or self.dtype, shape))
        )

    def number(self, value: float, dtype: DType | None = None) -> Value:
        """Add a constant."""
        return self.builder.add(ops.Constant(value, dtype or self.dtype))

    def add(self, op: Op, *operands: Value) -> Value:
        """Add an operation."""
        return self.builder.add(op, *operands)

    def build(self, *outputs: Value) -> Graph:
        """Return the graph."""
        return self.builder.build(*outputs)


def residual_norm(rows: int, columns: int, dtype: DType) -> Graph:
    """``s = x + r; y = rms_norm(s)``, both results."""
    graph = ChainGraph(rows, dtype)
    x, r, gain = graph.input(columns), graph.input(columns), graph.param(columns)
    total = graph.add(ops.Add(), x, r)
    return graph.build(total, graph.add(ops.RmsNorm(1e-6), total, gain))


def primitive_norm(rows: int, columns: int, dtype: DType) -> Graph:
    """The norm as it is captured: power, mean, add, rsqrt, multiply."""
    graph = ChainGraph(rows, dtype)
    x, gain = graph.input(columns), graph.param(columns)
    square = graph.add(ops.Power(), x, graph.number(2.0))
    mean = graph.add(ops.ReduceMean((1,)), square)
    inverse = graph.add(ops.Rsqrt(), graph.add(ops.Add(), mean, graph.number(1e-5)))
    return graph.build(graph.add(ops.Multiply(), graph.add(ops.Multiply(), x, inverse), gain))


def swiglu(rows: int, columns: int, dtype: DType) -> Graph:
    """``silu(gate) * up`` of one tensor ``[rows, 2 columns]``."""
    graph = ChainGraph(rows, dtype)
    both = graph.input(2 * columns)
    gate = graph.add(ops.Slice(1, 0, columns), both)
    up = graph.add(ops.Slice(1, columns, 2 * columns), both)
    return graph.build(graph.add(ops.Swiglu(), gate, up))


def rotary(rows: int, heads: int, columns: int, dtype: DType, layout: tuple[bool, bool]) -> Graph:
    """Rotary embedding of ``[rows, heads, columns]`` with f32 tables per row."""
    graph = ChainGraph(rows, dtype)
    x = graph.add(ops.Cast(DType.F32), graph.input(heads, columns))
    cos, sin = (graph.input(1, columns // 2, dtype=DType.F32) for _ in range(2))
    turned = graph.add(ops.Rotary(*layout), x, cos, sin)
    return graph.build(graph.add(ops.Cast(dtype), turned))


def query(rows: int, heads: int, nope: int, rope: int, dtype: DType) -> Graph:
    """Split heads into a plain and a rotary part, rotate, join, as DeepSeek's queries are made."""
    graph = ChainGraph(rows, dtype)
    width = nope + rope
    flat = graph.input(heads * width)
    cos, sin = (graph.input(1, rope // 2) for _ in range(2))
    x = graph.add(ops.Reshape((rows, heads, width)), flat)
    plain = graph.add(ops.Slice(2, 0, nope), x)
    turned = graph.add(
        ops.Rotary(interleaved_in=True, interleaved_out=False),
        graph.add(ops.Slice(2, nope, width), x),
        cos,
        sin,
    )
    return graph.build(graph.add(ops.Concat(2), plain, turned))


def latent(rows: int, rank: int, rope: int, dtype: DType) -> Graph:
    """Norm of the latent and rotation of the shared key: two results of one row."""
    graph = ChainGraph(rows, dtype)
    row, gain = graph.input(rank + rope), graph.param(rank)
    cos, sin = (graph.input(rope // 2) for _ in range(2))
    compressed = graph.add(ops.RmsNorm(1e-6), graph.add(ops.Slice(1, 0, rank), row), gain)
    key = graph.add(ops.Slice(1, rank, rank + rope), row)
    return graph.build(
        compressed, graph.add(ops.Rotary(interleaved_in=True, interleaved_out=False), key, cos, sin)
    )


def elementwise(
    rows: int, columns: int, dtype: DType, make: Callable[[ChainGraph, Value, Value], Value]
) -> Graph:
    """Any function of two inputs ``[rows, columns]``."""
    graph = ChainGraph(rows, dtype)
    a, b = graph.input(columns), graph.input(columns)
    return graph.build(make(graph, a, b))


def quantize(graph: ChainGraph, x: Value) -> tuple[Value, Value]:
    """Add the codes of the rows of ``x`` and their scales, ``[rows, 1]``."""
    wide = graph.add(ops.Cast(DType.F32), x)
    size = graph.add(ops.Maximum(), wide, graph.add(ops.Negate(), wide))
    largest = graph.add(ops.ReduceMax((1,), keep=True), size)
    floor = graph.add(ops.Maximum(), largest, graph.number(TINY, DType.F32))
    scale = graph.add(ops.Multiply(), floor, graph.number(1 / 127, DType.F32))
    nearest = graph.add(ops.Round(), graph.add(ops.Divide(), wide, scale))
    bounded = graph.add(ops.Minimum(), nearest, graph.number(127.0, DType.F32))
    bounded = graph.add(ops.Maximum(), bounded, graph.number(-127.0, DType.F32))
    return graph.add(ops.Cast(DType.I8), bounded), scale


def split(graph: ChainGraph, x: Value) -> tuple[Value, Value]:
    """Add the digits of the codes of the rows of ``x`` and their scales, ``[rows, 1]``."""
    wide = graph.add(ops.Cast(DType.F32), x)
    size = graph.add(ops.Maximum(), wide, graph.add(ops.Negate(), wide))
    largest = graph.add(ops.ReduceMax((1,), keep=True), size)
    floor = graph.add(ops.Maximum(), largest, graph.number(TINY, DType.F32))
    scale = graph.add(ops.Multiply(), floor, graph.number(1 / 119, DType.F32))
    nearest = graph.add(ops.Round(), graph.add(ops.Divide(), wide, scale))
    return graph.add(ops.SplitCodes(), nearest), scale


def join(graph: ChainGraph, sums: Value, columns: int) -> Value:
    """Add ``16 high + low`` of sums of digits ``[rows, 2, columns]``."""
    high, low = (
        graph.add(
            ops.Cast(DType.F32),
            graph.add(ops.Reshape((graph.rows, columns)), graph.add(ops.Slice(1, i, i + 1), sums)),
        )
        for i in (0, 1)
    )
    weighted = graph.add(ops.Multiply(), high, graph.number(16.0, DType.F32))
    return graph.add(ops.Add(), weighted, low)


def dequantize(graph: ChainGraph, sums: Value, scale: Value, columns: Value) -> Value:
    """Add ``f32(sums) * scale * columns``."""
    wide = graph.add(ops.Cast(DType.F32), sums)
    return graph.add(ops.Multiply(), graph.add(ops.Multiply(), wide, scale), columns)


def normed_codes(rows: int, columns: int) -> Graph:
    """``y = rms_norm(x + r)`` as codes and scales; the sum is a result, too."""
    graph = ChainGraph(rows, DType.BF16)
    x, r, gain = graph.input(columns), graph.input(columns), graph.param(columns)
    total = graph.add(ops.Add(), x, r)
    return graph.build(total, *quantize(graph, graph.add(ops.RmsNorm(1e-6), total, gain)))


def expert_sums(rows: int, columns: int, experts: int, dtype: DType) -> Graph:
    """Numbers of the sums of products of experts, whose channels have scales of their own."""
    graph = ChainGraph(rows, DType.F32)
    sums, scale = graph.input(columns, dtype=DType.I32), graph.input(1)
    expert = graph.input(dtype=DType.I32)
    channels = graph.add(ops.GatherRows(), graph.param(experts, columns), expert)
    return graph.build(graph.add(ops.Cast(dtype), dequantize(graph, sums, scale, channels)))


def gated_digits(rows: int, columns: int) -> Graph:
    """From the sums of digits of gate and up projection to the digits of the next one."""
    graph = ChainGraph(rows, DType.F32)
    sums, scale = graph.input(2, 2 * columns, dtype=DType.I32), graph.input(1)
    joined = graph.add(ops.Multiply(), join(graph, sums, 2 * columns), scale)
    gate = graph.add(ops.Slice(1, 0, columns), joined)
    up = graph.add(ops.Slice(1, columns, 2 * columns), joined)
    hidden = graph.add(ops.Swiglu(), gate, up)
    return graph.build(hidden, *split(graph, hidden))


def gated_codes(rows: int, columns: int) -> Graph:
    """From the sums of gate and up projection to the codes of the next one."""
    graph = ChainGraph(rows, DType.F32)
    sums, scale = graph.input(2 * columns, dtype=DType.I32), graph.input(1)
    both = dequantize(graph, sums, scale, graph.param(2 * columns))
    gate = graph.add(ops.Slice(1, 0, columns), both)
    up = graph.add(ops.Slice(1, columns, 2 * columns), both)
    hidden = graph.add(ops.Swiglu(), gate, up)
    return graph.build(hidden, *quantize(graph, hidden))
