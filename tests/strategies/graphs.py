"""Random well-typed graphs of moves and elementwise arithmetic."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Cast,
    Concat,
    Constant,
    Cos,
    Expand,
    Input,
    Linear,
    Multiply,
    Negate,
    Param,
    Reshape,
    RmsNorm,
    Rotary,
    Slice,
    Subtract,
    Transpose,
)
from ascendfx.ir.size import Dim, product
from ascendfx.ir.tensor_type import DType, TensorType

_DIMS = st.sampled_from([1, 2, 3, 4])
_SHAPES = st.lists(_DIMS, min_size=1, max_size=4).map(tuple)
_Step = Callable[[Any, GraphBuilder, list[Value]], Value]


def _pick(draw: Any, values: list[Value]) -> Value:
    return draw(st.sampled_from(values[-4:]))


def _transpose(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    return b.add(Transpose(tuple(draw(st.permutations(range(b.type_of(x).rank))))), x)


def _reshape(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    shape = list(b.type_of(x).shape)
    at = draw(st.integers(0, len(shape)))
    match draw(st.sampled_from(["insert", "drop", "join", "cut"])):
        case "insert":
            shape.insert(at, 1)
        case "drop":
            shape = [d for d in shape if d != 1] or [1]
        case "join" if at + 1 < len(shape):
            shape[at : at + 2] = [product(shape[at : at + 2])]
        case _ if at < len(shape) and shape[at] in (4, 6, 8, 12, 16):
            shape[at : at + 1] = [2, shape[at] // 2]
        case _:
            pass
    return b.add(Reshape(tuple(shape)), x)


def _slice(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    axis = draw(st.integers(0, b.type_of(x).rank - 1))
    size = b.type_of(x).shape[axis]
    assert isinstance(size, int)
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    return b.add(Slice(axis, start, stop, draw(st.sampled_from([1, 1, 2]))), x)


def _concat(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    other = draw(st.sampled_from([x, _pick(draw, values)]))
    return b.add(Concat(draw(st.integers(0, b.type_of(x).rank - 1))), x, other)


def _expand(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    shape = [draw(_DIMS) if d == 1 else d for d in b.type_of(x).shape]
    lead: list[Dim] = draw(st.lists(_DIMS, max_size=1))
    return b.add(Expand((*lead, *shape)), x)


def _unary(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    op = draw(st.sampled_from([Negate(), Cos(), Cast(DType.F32), Cast(DType.BF16)]))
    y = b.add(op, _pick(draw, values))
    return y if b.type_of(y).dtype is DType.F32 else b.add(Cast(DType.F32), y)


def _binary(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    op = draw(st.sampled_from([Add(), Multiply(), Subtract()]))
    number = b.add(Constant(draw(st.sampled_from([0.0, 1.0, 2.0])), DType.F32))
    return b.add(op, _pick(draw, values), draw(st.sampled_from([number, _pick(draw, values)])))


def _almost_neutral(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    """Compute with a constant that is neutral, or looks like one."""
    op = draw(st.sampled_from([Add(), Subtract(), Multiply()]))
    number = b.add(Constant(draw(st.sampled_from([0.0, -0.0, 1.0])), DType.F32))
    return b.add(op, _pick(draw, values), number)


def _last_axis(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    size = b.type_of(x).shape[-1]
    assert isinstance(size, int)
    count = len(values)
    match draw(st.sampled_from(["linear", "rms_norm", "rotary"])):
        case "linear":
            weight = b.add(Param(f"w{count}", TensorType(DType.F32, (draw(_DIMS), size))))
            return b.add(Linear(), x, weight)
        case "rms_norm":
            gain = b.add(Param(f"g{count}", TensorType(DType.F32, (size,))))
            return b.add(RmsNorm(0.5), x, gain)
        case _:
            half = TensorType(DType.F32, (*b.type_of(x).shape[:-1], size // 2))
            tables = [b.add(Param(f"{name}{count}", half)) for name in ("c", "s")]
            return b.add(Rotary(draw(st.booleans()), draw(st.booleans())), x, *tables)


def _cut_and_turn(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    """Cut or join axes, then permute: what hoisting has to see through."""
    x = _reshape(draw, b, values)
    return b.add(Transpose(tuple(draw(st.permutations(range(b.type_of(x).rank))))), x)


_STEPS: tuple[_Step, ...] = (
    _cut_and_turn,
    _cut_and_turn,
    _transpose,
    _transpose,
    _reshape,
    _slice,
    _concat,
    _expand,
    _unary,
    _binary,
    _almost_neutral,
    _almost_neutral,
    _last_axis,
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw a graph by adding random operations and keeping those that type-check."""
    builder = GraphBuilder("random")
    values = [
        builder.add(Input(f"x{i}", TensorType(DType.F32, draw(_SHAPES))))
        for i in range(draw(st.integers(1, 2)))
    ]
    for _ in range(draw(st.integers(1, 10))):
        try:
            values.append(draw(st.sampled_from(_STEPS))(draw, builder, values))
        except GraphError:
            continue
    return builder.build(values[-1], draw(st.sampled_from(values)))
