"""Arithmetic on bfloat16 and float16 is done in float32 and rounded once."""

import numpy as np
import onnx
import pytest

from ascendfx.ir import ops
from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.text.parser import parse_program
from tests.ir.op_cases import GOOD, operand_types
from tests.ir.operand_arrays import operand
from tests.onnx.assert_agrees import assert_step_agrees
from tests.onnx.on_device import on_device
from tests.onnx.onnx_session import run_model

CASES = [case for case in GOOD if "f32" in case[1] and not on_device(case[0])]


def narrow_graph(op: Op, text: str, dtype: DType) -> Graph:
    """Return the operation on values of ``dtype``, with float32 inputs and outputs around it."""
    builder = GraphBuilder("g")
    values = []
    for i, kind in enumerate(operand_types(text)):
        value = builder.add(ops.Input(f"x{i}", kind))
        values.append(builder.add(ops.Cast(dtype), value) if kind.dtype.is_float else value)
    results = builder.add_multi(op, *values)
    wide = [
        builder.add(ops.Cast(DType.F32), each) if builder.type_of(each).dtype is dtype else each
        for each in results
    ]
    return builder.build(*wide)


def representable(array: Array, dtype: DType) -> Array:
    return array.astype(dtype.numpy).astype(np.float64) if array.dtype.kind == "f" else array


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16], ids=lambda each: each.value)
@pytest.mark.parametrize(("op", "text"), CASES, ids=lambda each: getattr(each, "mnemonic", None))
def test_each_operation_rounds_once(op: Op, text: str, dtype: DType) -> None:
    types = operand_types(text)
    values = [representable(operand(op, i, types, seed=1), dtype) for i in range(len(types))]
    model = to_onnx(narrow_graph(op, text, dtype))
    onnx.checker.check_model(model, full_check=True)
    results = run_model(model, {f"x{i}": value for i, value in enumerate(values)})
    kinds = op.infer(*types)
    assert_step_agrees(op, values, results, [dtype if k.dtype.is_float else k.dtype for k in kinds])


def test_a_constant_is_not_rounded_before_it_is_used() -> None:
    graph = parse_program(
        "graph @g {\n"
        '  %0 = input "x" : f32[1]\n'
        "  %1 = cast %0 {dtype=bf16} : bf16[1]\n"
        "  %2 = constant {value=1.00390625, dtype=bf16} : bf16[]\n"
        "  %3 = multiply %1, %2 : bf16[1]\n"
        "  %4 = cast %3 {dtype=f32} : f32[1]\n"
        "  return %4\n"
        "}\n"
    ).main
    # 1 + 2^-8 is no bfloat16, it lies between 1 and 1 + 2^-7; its product with 1 + 2^-7 is
    # 1.0117.., which rounds to 1 + 2^-7 + 2^-7. The rounded constant would give 1 + 2^-7.
    x = 1 + 2.0**-7
    assert x * 1.00390625 > x + 2.0**-8
    (result,) = run_model(to_onnx(graph), {"x": np.array([x])})
    assert result[0] == x + 2.0**-7


def test_weights_and_types_are_stored_in_the_format_of_the_program() -> None:
    kind = TensorType(DType.BF16, (2,))
    builder = GraphBuilder("g")
    graph = builder.build(builder.add(ops.Param("w", kind)))
    (weight,) = to_onnx(graph, weights={"w": np.array([1.0, 2.0**-9 + 1])}).graph.initializer
    assert weight.data_type == onnx.TensorProto.BFLOAT16
    assert weight.raw_data == bytes([0x80, 0x3F, 0x80, 0x3F])
    (output,) = to_onnx(graph).graph.output
    assert output.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
    (output,) = to_onnx(graph, float_dtype=DType.F32).graph.output
    assert output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
