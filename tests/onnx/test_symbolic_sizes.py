"""Sizes that are not known when the model is written."""

import dataclasses

import numpy as np
import pytest
import sympy

from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError, OpTypeError
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.onnx.body import Body
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.onnx.names import Names
from ascendfx.ir.op import Op
from ascendfx.ir.size import Dim, named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.text.parser import parse_program
from tests.ir.op_cases import GOOD, operand_types
from tests.ir.operand_arrays import operand
from tests.onnx.assert_agrees import assert_graph_agrees
from tests.onnx.on_device import on_device
from tests.onnx.onnx_session import run_model

N = named_size("n")


def _named(value: object, number: int) -> object:
    match value:
        case bool() | float() | str() | DType():
            return value
        case int():
            return N if value == number else value
        case tuple():
            return tuple(_named(each, number) for each in value)
        case _:
            return value


def symbolic_cases() -> list[tuple[Op, tuple[TensorType, ...], int]]:
    """Return each good case with each number that can be a named size everywhere."""
    found: list[tuple[Op, tuple[TensorType, ...], int]] = []
    for op, text in GOOD:
        if on_device(op):
            continue
        types = operand_types(text)
        for number in {int(size) for kind in types for size in kind.shape}:
            named = tuple(TensorType(t.dtype, _named(t.shape, number)) for t in types)  # pyright: ignore[reportArgumentType]
            fields = {
                field.name: _named(getattr(op, field.name), number)
                for field in dataclasses.fields(op)
                if field.name in ("shape", "size", "start", "stop", "context")
            }
            symbolic = dataclasses.replace(op, **fields)
            try:
                symbolic.infer(*named)
            except (OpTypeError, TypeError):
                continue
            found.append((symbolic, named, number))
    return found


@pytest.mark.parametrize(
    ("op", "types", "number"),
    symbolic_cases(),
    ids=lambda each: each.mnemonic if isinstance(each, Op) else None,
)
def test_a_size_can_be_read_from_the_operands(
    op: Op, types: tuple[TensorType, ...], number: int
) -> None:
    fixed = tuple(kind.substitute({"n": number}) for kind in types)
    tensors = {f"x{i}": operand(op, i, fixed, seed=number) for i in range(len(types))}
    builder = GraphBuilder("g")
    values = [builder.add(ops.Input(f"x{i}", kind)) for i, kind in enumerate(types)]
    assert_graph_agrees(builder.build(*builder.add_multi(op, *values)), tensors)


def test_every_operation_but_one_takes_a_named_size_in_its_case() -> None:
    covered = {type(op) for op, _, _ in symbolic_cases()}
    # Reshape needs a size on both sides; the programs have it.
    exported = {type(op) for op, text in GOOD if text and not on_device(op)}
    assert exported - covered == {ops.Reshape}


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize(
    "size",
    [N, 2 * N + 3, N**2 - N + 1, sympy.floor(N / 4) + 1, sympy.floor((3 * N + 5) / 2), 7 * N],
    ids=str,
)
def test_expressions_are_computed_in_the_model(size: Dim, n: int) -> None:
    builder = GraphBuilder("g")
    x = builder.add(ops.Input("x", TensorType(DType.F32, (3, N))))
    count = builder.add(ops.Iota(size, DType.I64))
    (result, _) = run_model(to_onnx(builder.build(count, x)), {"x": np.zeros((3, n))})
    expected = size.subs(N, n)  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(result, np.arange(int(expected)))


def test_an_expression_of_another_kind_is_refused() -> None:
    body = Body(Names())
    with pytest.raises(OpTypeError, match=r"^the size .* cannot be computed in ONNX$"):
        body.size(sympy.Max(N, 2) - 1)


READS_CONTEXT = """\
graph @main {
  %0 = input "cache" : f32[blocks, 4, 3]
  %1 = input "table" : i32[requests, columns]
  %2 = call %0, %1 {callee="layer", keys=[]} : f32[requests, context, 3]
  return %2
}

graph @layer {
  %0 = input "cache" : f32[blocks, 4, 3]
  %1 = input "table" : i32[requests, columns]
  %2 = cache_read %0, %1 {context=<context>} : f32[requests, context, 3]
  return %2
}
"""


def test_a_size_that_no_shape_reveals_is_an_input() -> None:
    model = to_onnx(parse_program(READS_CONTEXT))
    assert [each.name for each in model.graph.input] == ["cache", "table", "size.context"]
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["requests", "context", ""]
    tensors = {
        "cache": np.arange(24.0).reshape(2, 4, 3),
        "table": np.array([[1, 0]]),
        "size.context": np.array([5]),
    }
    (result,) = run_model(model, tensors)
    np.testing.assert_array_equal(result[0, :, 0], [12, 15, 18, 21, 0])


def test_a_size_can_be_fixed() -> None:
    model = to_onnx(parse_program(READS_CONTEXT), sizes={"context": 2, "requests": 1})
    assert [each.name for each in model.graph.input] == ["cache", "table"]
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 2, 3]


def test_a_number_that_does_not_fit_is_refused() -> None:
    builder = GraphBuilder("g")
    x = builder.add(ops.Input("x", TensorType(DType.F32, (N,))))
    graph = builder.build(builder.add(ops.Slice(0, 0, 4), x))
    with pytest.raises(GraphError, match=r"error\[operand-type\]"):
        to_onnx(graph, sizes={"n": 3})
