"""What ONNX cannot say is refused in the user's terms."""

import subprocess
import sys

import numpy as np
import pytest

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.onnx import export_program
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program


def test_arithmetic_on_truth_values_reads_like_this() -> None:
    program = parse_program(
        'graph @g {\n  %0 = input "x" : bool[2]\n  %1 = add %0, %0 : bool[2]\n  return %1\n}\n',
        file="truth.ir",
    )
    with pytest.raises(GraphError) as caught:
        to_onnx(program)
    assert str(caught.value) == (
        "error[onnx-unsupported]: add: ONNX has no arithmetic on truth values\n"
        "  --> truth.ir:3\n"
        "   |\n"
        "   | %1 = add %0, %0 : bool[2]\n"
        "   |\n"
        "\n"
        "hint: insert a cast to i32"
    )


def test_the_mean_of_integers_is_refused() -> None:
    program = parse_program(
        'graph @g {\n  %0 = input "x" : i64[2]\n'
        "  %1 = reduce_mean %0 {axes=[0]} : i64[1]\n  return %1\n}\n"
    )
    with pytest.raises(GraphError, match="ONNX truncates the mean of integers"):
        to_onnx(program)


def test_a_malformed_program_is_refused() -> None:
    program = parse_program(
        'graph @g {\n  %0 = call {callee="h", keys=[]} : f32[]\n  return %0\n}\n'
    )
    with pytest.raises(GraphError, match=r"error\[unknown-graph\]"):
        to_onnx(program)


def test_floats_in_an_integer_format_are_refused() -> None:
    with pytest.raises(GraphError, match=r"error\[onnx-format\]: i32 is not a float format"):
        to_onnx(parse_program("graph @g {\n  %0 = constant {value=1, dtype=i32} : i32[]\n"
                              "  return %0\n}\n"), float_dtype=DType.I32)  # fmt: skip


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_program, "find_spec", lambda _name: None)
    program = parse_program('graph @g {\n  %0 = input "x" : f32[]\n  return %0\n}\n')
    with pytest.raises(GraphError) as caught:
        to_onnx(program)
    assert caught.value.code == "missing-package"
    assert caught.value.hint == "pip install ascendfx[onnx]"


def test_onnx_is_imported_by_the_first_export_only() -> None:
    code = "import sys, ascendfx; ascendfx.to_onnx; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_front_door_has_it() -> None:
    assert ascendfx.to_onnx is to_onnx
    program = parse_program('graph @g {\n  %0 = input "x" : f32[2]\n  return %0, %0\n}\n')
    assert [each.name for each in to_onnx(program).graph.output] == ["output_0", "output_1"]
    assert np.dtype(np.float32) == DType.F32.numpy
