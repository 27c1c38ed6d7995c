"""Parameters as inputs or inside the model, with and without recipes."""

import numpy as np
import pytest
from onnx import numpy_helper

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.op import Array
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program
from tests.onnx.assert_agrees import assert_program_agrees, size_inputs
from tests.onnx.decode_programs import decode, step_tensors
from tests.onnx.onnx_session import run_model

RECIPES = """\
graph @main {
  %0 = input "x" : f32[rows, 4]
  %1 = param "own" : f32[4]
  %2 = add %0, %1 : f32[rows, 4]
  %3 = call %2 {callee="outer", keys=[["w", "a.w"]]} : f32[rows, 4]
  %4 = call %3 {callee="outer", keys=[["w", "b.w"]]} : f32[rows, 4]
  return %4
}

graph @outer {
  %0 = input "x" : f32[rows, 4]
  %1 = param "w" : f32[4, 4]
  %2 = linear %0, %1 : f32[rows, 4]
  %3 = call %2 {callee="inner", keys=[["w", "shared.w"], ["g", "shared.g"]]} : f32[rows, 4]
  return %3
}

graph @inner {
  %0 = input "x" : f32[rows, 4]
  %1 = param "scaled" : f32[4, 4]
  %2 = linear %0, %1 : f32[rows, 4]
  return %2
}

recipe @main "own" {
  %0 = param "base" : f32[4]
  %1 = negate %0 : f32[4]
  return %1
}

recipe @inner "scaled" {
  %0 = param "turned" : f32[4, 4]
  %1 = param "g" : f32[4]
  %2 = multiply %0, %1 : f32[4, 4]
  return %2
}

recipe @inner "turned" {
  %0 = param "w" : f32[4, 4]
  %1 = transpose %0 {permutation=[1, 0]} : f32[4, 4]
  return %1
}
"""
KEYS = ("base", "a.w", "shared.w", "shared.g", "b.w")


def weights() -> dict[str, Array]:
    random = np.random.default_rng(7)
    shapes = [(4,) if key in ("base", "shared.g") else (4, 4) for key in KEYS]
    return {key: random.standard_normal(shape) for key, shape in zip(KEYS, shapes, strict=True)}


X = {"x": np.random.default_rng(8).standard_normal((3, 4))}


def test_without_weights_recipes_are_nodes_over_checkpoint_keys() -> None:
    program = parse_program(RECIPES)
    model = to_onnx(program)
    assert {each.name for each in model.graph.input} == {"x", *KEYS}
    assert not model.graph.initializer
    assert_program_agrees(program, {**X, **weights()})


def test_with_weights_recipes_are_evaluated_once_per_call() -> None:
    program = parse_program(RECIPES)
    model = to_onnx(program, weights=weights(), float_dtype=DType.F64)
    assert [each.name for each in model.graph.input] == ["x"]
    stored = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    assert list(stored) == ["own", "a.w", "inner.scaled", "b.w"]
    w = weights()
    np.testing.assert_array_equal(stored["inner.scaled"], w["shared.w"].T * w["shared.g"])
    np.testing.assert_array_equal(stored["own"], -w["base"])
    # The same arithmetic on the same float64 values, in the same order, with or without.
    (baked,) = run_model(model, X)
    (computed,) = run_model(to_onnx(program, float_dtype=DType.F64), {**X, **w})
    np.testing.assert_array_equal(baked, computed)


def test_a_decode_step_with_weights_inside_equals_the_step_with_weights_given() -> None:
    program = decode("latent_attention")
    tensors, sizes = step_tensors("latent_attention", program, seed=4)
    inputs = {**tensors, **size_inputs(sizes)}
    baked = run_model(to_onnx(program, weights=tensors, float_dtype=DType.F64), inputs)
    given = run_model(to_onnx(program, float_dtype=DType.F64), inputs)
    for one, other in zip(baked, given, strict=True):
        np.testing.assert_array_equal(one, other)
    expected = interpret(program, tensors, sizes=sizes)
    np.testing.assert_array_equal(baked[0], expected[0])


def test_a_missing_weight_is_named() -> None:
    with pytest.raises(GraphError, match=r"error\[missing-tensor\]: there is no weight `b.w`"):
        to_onnx(parse_program(RECIPES), weights={k: v for k, v in weights().items() if k != "b.w"})


def test_a_weight_of_another_shape_is_refused() -> None:
    wrong = {**weights(), "a.w": np.zeros((4, 5))}
    with pytest.raises(GraphError) as caught:
        to_onnx(parse_program(RECIPES), weights=wrong)
    assert str(caught.value) == (
        "error[weight-shape]: `a.w` has shape (4, 5); the program reads f32[4, 4]\n"
        "\n"
        "hint: pass the weights of the checkpoint that the program was captured from"
    )


def test_weights_that_no_file_can_hold_are_refused_before_any_is_read() -> None:
    text = 'graph @g {\n  %0 = param "w" : f32[23170, 23170]\n  return %0\n}\n'
    with pytest.raises(GraphError) as caught:
        to_onnx(parse_program(text), weights={})
    assert caught.value.code == "onnx-too-large"
    assert caught.value.reason.startswith("the weights take 2147395600 bytes; ")


def test_a_key_that_is_also_an_input_is_refused() -> None:
    text = (
        'graph @g {\n  %0 = input "w" : f32[2]\n  %1 = param "w" : f32[2]\n'
        "  %2 = add %0, %1 : f32[2]\n  return %2\n}\n"
    )
    with pytest.raises(GraphError, match=r"error\[onnx-name\]: `w` names a weight"):
        to_onnx(parse_program(text))
