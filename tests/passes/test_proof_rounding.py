"""Rounding as it happens in each format, and how its bound grows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Add, Input, Linear, Multiply, ReduceSum, RmsNorm, Softmax
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.proof.format_bound import SCALE, format_bound
from ascendfx.passes.proof.round_in_format import evaluate_rounded, round_to

FORMATS = (DType.F32, DType.BF16, DType.F16)


def graph_of(op: Op, dtype: DType, *shapes: tuple[int, ...]) -> Graph:
    builder = GraphBuilder("g")
    inputs = [builder.add(Input(f"x{i}", TensorType(dtype, s))) for i, s in enumerate(shapes)]
    return builder.build(builder.add(op, *inputs))


def test_a_sum_rounds_after_every_term() -> None:
    """1 + u/2 + u/2 + ... stays 1 in f32, term by term; pairwise or in f64 it would not."""
    small = 2.0**-24
    x = np.array([1.0] + [small] * 8)
    (y,) = evaluate_rounded(graph_of(ReduceSum((0,)), DType.F32, (9,)), {"x0": x})
    assert y == [1.0]


def test_bf16_is_computed_in_f32_and_rounded_once() -> None:
    x, w = np.array([[1.0, 2.0**-9]]), np.ones((1, 2))
    (y,) = evaluate_rounded(graph_of(Linear(), DType.BF16, (1, 2), (1, 2)), {"x0": x, "x1": w})
    assert y == [[1.0]]
    x = np.array([[1.0, 2.0**-8, 2.0**-9]])
    (y,) = evaluate_rounded(
        graph_of(Linear(), DType.BF16, (1, 3), (1, 3)), {"x0": x, "x1": np.ones((1, 3))}
    )
    assert y == [[1.0 + 2.0**-7]]  # the sum is 1 + 1.5 * 2^-8: rounded once, to the nearest


@pytest.mark.parametrize("dtype", FORMATS, ids=lambda d: d.value)
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (Add(), ((4,), (4,))),
        (Multiply(), ((4,), (4,))),
        (Linear(), ((2, 5), (3, 5))),
        (ReduceSum((0,)), ((7,),)),
        (RmsNorm(1e-5), ((2, 5), (5,))),
        (Softmax(1), ((2, 6),)),
    ],
    ids=lambda each: each.mnemonic if isinstance(each, Op) else None,
)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_bound_holds_in_each_format(
    op: Op, shapes: tuple[tuple[int, ...], ...], dtype: DType, seed: int
) -> None:
    random = np.random.default_rng(seed)
    graph = graph_of(op, dtype, *shapes)
    tensors = {f"x{i}": round_to(random.standard_normal(s), dtype) for i, s in enumerate(shapes)}
    (exact,), (rounded,) = interpret(graph, tensors), evaluate_rounded(graph, tensors)
    ((_, error),) = format_bound(graph, tensors)
    assert np.all(np.abs(rounded - exact) <= 2 * error / SCALE)  # twice: terms of second order
