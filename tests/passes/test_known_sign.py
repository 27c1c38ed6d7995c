"""What is said about signs and numbers of f32 holds for every value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Cos,
    Divide,
    Exp,
    Input,
    Log,
    Maximum,
    Multiply,
    Negate,
    Power,
    Reciprocal,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Relu,
    Reshape,
    RouteTopk,
    Rsqrt,
    Sigmoid,
    Silu,
    Slice,
    Softmax,
    Sqrt,
    Subtract,
    Transpose,
)
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.known_sign import is_nonnegative
from ascendfx.passes.normal_numbers import is_normal_f32

_UNARY: tuple[Op, ...] = (
    Cast(DType.BF16),
    Cos(),
    Exp(),
    Log(),
    Negate(),
    Reciprocal(),
    ReduceMax((0,)),
    ReduceMean((1,)),
    ReduceSum((0,)),
    Relu(),
    Rsqrt(),
    Sigmoid(),
    Silu(),
    Slice(1, 0, 3),
    Softmax(1),
    Sqrt(),
    Transpose((1, 0)),
)
_BINARY: tuple[Op, ...] = (Add(), Divide(), Maximum(), Multiply(), Power(), Subtract())


@given(data=st.data())
def test_a_value_that_is_said_not_to_be_negative_is_not(data: st.DataObject) -> None:
    b = GraphBuilder("g")
    values = [b.add(Input("x", TensorType(DType.F32, (3, 3)))), b.add(Constant(-1.0, DType.F32))]
    values.append(b.add(Constant(2.0, DType.F32)))
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            op = data.draw(st.sampled_from(_BINARY))
            operands = [data.draw(st.sampled_from(values)) for _ in range(2)]
        else:
            op = data.draw(st.sampled_from(_UNARY))
            operands = [data.draw(st.sampled_from([v for v in values if b.type_of(v).rank == 2]))]
        kinds = [b.type_of(v) for v in operands]
        fits = all(k.dtype is DType.F32 and k.shape in ((), (3, 3)) for k in kinds)
        if fits:
            values.append(b.add(op, *operands))
    graph = b.build(*values)
    x = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal((3, 3))
    with np.errstate(all="ignore"):
        results = interpret(graph, {"x": x})
    for value, result in zip(values, results, strict=True):
        assert not is_nonnegative(graph, value) or not np.any(result < 0)


def last(op: Op, *, result: int = 0, of: Op | None = None) -> tuple[Graph, Value]:
    b = GraphBuilder("g")
    x = b.add(Input("x", TensorType(DType.F32, (4, 4))))
    if of is not None:
        x = b.add(of, x)
    value = b.add_multi(op, x)[result]
    return b.build(value), value


@pytest.mark.parametrize(
    ("op", "of", "known"),
    [
        (Sigmoid(), None, True),
        (Reshape((16,)), Exp(), True),
        (ReduceSum((1,)), Softmax(1), True),
        (Negate(), Exp(), False),
        (Silu(), Exp(), False),
        (Reshape((16,)), None, False),
    ],
)
def test_signs_of_operations(op: Op, of: Op | None, *, known: bool) -> None:
    assert is_nonnegative(*last(op, of=of)) == known


def test_signs_of_the_weights_of_a_router() -> None:
    assert is_nonnegative(*last(RouteTopk(2, "sigmoid", scale=2.5)))
    assert not is_nonnegative(*last(RouteTopk(2, "sigmoid", scale=-2.5)))
    assert not is_nonnegative(*last(RouteTopk(2, "sigmoid"), result=1))


def test_normal_numbers_of_f32() -> None:
    least, largest = 2.0**-126, (2 - 2.0**-23) * 2.0**127
    assert all(is_normal_f32(s * n) for n in (least, 1.0, largest) for s in (1, -1))
    inf, nan = float("inf"), float("nan")
    assert not any(is_normal_f32(n) for n in (0.0, least / 2, largest * 2, inf, -inf, nan))
