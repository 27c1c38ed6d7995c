"""Random small layers of products, sums, scales and norms, over named rows."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Concat,
    Constant,
    HeadLinear,
    Input,
    Linear,
    Multiply,
    Param,
    Relu,
    Reshape,
    RmsNorm,
    Slice,
    Swiglu,
)
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType

ROWS = named_size("rows")
_WIDTHS = st.sampled_from([4, 8])
_Step = Callable[[Any, GraphBuilder, list[Value]], Value]


def _pick(draw: Any, values: list[Value]) -> Value:
    return draw(st.sampled_from(values[-5:]))


def _width(b: GraphBuilder, value: Value) -> int:
    size = b.type_of(value).shape[-1]
    assert isinstance(size, int)
    return size


def _linear(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    kind = TensorType(DType.F32, (draw(_WIDTHS), _width(b, x)))
    names = [f"w{len(values)}", *(n.op.name for n in b.build().nodes if isinstance(n.op, Param))]
    known = {n.op.name: n.op.type for n in b.build().nodes if isinstance(n.op, Param)}
    name = draw(st.sampled_from([n for n in names if known.get(n, kind) == kind]))
    return b.add(Linear(), x, b.leaf(Param(name, kind)))


def _heads(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    size = _width(b, x) // 2
    weight = b.leaf(Param(f"h{len(values)}", TensorType(DType.F32, (2, draw(_WIDTHS), size))))
    y = b.add(HeadLinear(), b.add(Reshape((ROWS, 2, size)), x), weight)
    return b.add(Reshape((ROWS, 2 * _width(b, y))), y)


def _norm(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    gain = b.leaf(Param(f"g{len(values)}", TensorType(DType.F32, (_width(b, x),))))
    return b.add(RmsNorm(0.5), x, gain)


def _scale(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    number = b.leaf(Constant(draw(st.sampled_from([0.5, 2.0, 3.0])), DType.F32))
    return b.add(Multiply(), _pick(draw, values), number)


def _sum(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    return b.add(Add(), _pick(draw, values), _pick(draw, values))


def _gated(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    return b.add(Swiglu(), _pick(draw, values), _pick(draw, values))


def _half(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    x = _pick(draw, values)
    size = _width(b, x) // 2
    start = draw(st.sampled_from([0, size]))
    return b.add(Slice(1, start, start + size), x)


def _joined(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    return b.add(Concat(1), _pick(draw, values), _pick(draw, values))


def _relu(draw: Any, b: GraphBuilder, values: list[Value]) -> Value:
    return b.add(Relu(), _pick(draw, values))


_STEPS: tuple[_Step, ...] = (
    *(_linear, _linear, _linear, _linear, _sum, _sum),
    *(_heads, _norm, _scale, _gated, _half, _joined, _relu),
)


@st.composite
def layers(draw: st.DrawFn) -> Graph:
    """Draw a layer; what does not type-check is left out."""
    b = GraphBuilder("layer")
    values = [b.add(Input("x", TensorType(DType.F32, (ROWS, draw(_WIDTHS)))))]
    for _ in range(draw(st.integers(1, 8))):
        try:
            values.append(draw(st.sampled_from(_STEPS))(draw, b, values))
        except GraphError:
            continue
    graph = b.build(*dict.fromkeys([values[-1], _pick(draw, values)]))
    return graph.part(graph.outputs, keep=graph.inputs)
