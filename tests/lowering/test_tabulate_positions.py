import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.lowering.tabulate_positions import TabulatePositions
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Cos, GatherRows, Sin
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program

POSITIONS = 64

ANGLES = """graph @g {
  %0 = input "positions" : i32[rows]
  %1 = input "x" : f32[rows, 6]
  %2 = param "inv_freq" : f32[3]
  %3 = cast %0 {dtype=f32} : f32[rows]
  %4 = reshape %3 {shape=SHAPE} : f32TYPE
  %5 = multiply %4, %2 : f32PRODUCT
  %6 = cos %5 : f32PRODUCT
  %7 = sin %5 : f32PRODUCT
  %8 = reshape %6 {shape=[<rows>, 3]} : f32[rows, 3]
  %9 = reshape %7 {shape=[<rows>, 3]} : f32[rows, 3]
  %10 = rotary %1, %8, %9 {interleaved_in=true, interleaved_out=true} : f32[rows, 6]
  return %10
}"""
FORMS = {
    "rows first": ANGLES.replace("SHAPE", "[<rows>, 1]")
    .replace("TYPE", "[rows, 1]")
    .replace("PRODUCT", "[rows, 3]"),
    "one in front": ANGLES.replace("SHAPE", "[1, <rows>, 1]")
    .replace("TYPE", "[1, rows, 1]")
    .replace("PRODUCT", "[1, rows, 3]"),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
@given(positions=st.lists(st.integers(0, POSITIONS - 1), min_size=1, max_size=5))
def test_a_table_gives_what_the_step_would_compute(text, positions):
    graph = parse_program(text).main
    after = TabulatePositions(POSITIONS).run(Program((graph,))).program
    tensors = {
        "positions": np.array(positions),
        "x": np.random.default_rng(0).standard_normal((len(positions), 6)),
        "inv_freq": np.array([1.0, 0.1, 0.01]),
    }
    expected, actual = interpret(graph, tensors), interpret(after, tensors)
    np.testing.assert_array_equal(actual[0], expected[0])


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_no_sine_is_left_in_the_rows_of_the_step(text):
    after = TabulatePositions(POSITIONS).run(parse_program(text)).program.main
    for node in after.nodes:
        if isinstance(node.op, Cos | Sin):
            assert not node.types[0].names
    assert sum(isinstance(node.op, GatherRows) for node in after.nodes) == 2


def test_values_of_other_inputs_are_not_tabulated():
    graph = parse_program("""graph @g {
      %0 = input "positions" : i32[rows]
      %1 = input "x" : f32[rows]
      %2 = cast %0 {dtype=f32} : f32[rows]
      %3 = add %1, %1 : f32[rows]
      %4 = cos %3 : f32[rows]
      return %4
    }""").main
    assert TabulatePositions(POSITIONS).run_graph(graph).graph is graph


def test_positions_compared_with_each_other_are_not_tabulated():
    graph = parse_program("""graph @g {
      %0 = input "positions" : i32[rows]
      %1 = reshape %0 {shape=[<rows>, 1]} : i32[rows, 1]
      %2 = cast %0 {dtype=f32} : f32[rows]
      %3 = cast %1 {dtype=f32} : f32[rows, 1]
      %4 = subtract %2, %3 : f32[rows, rows]
      %5 = cos %4 : f32[rows, rows]
      return %5
    }""").main
    after = TabulatePositions(POSITIONS).run_graph(graph).graph
    assert any(isinstance(node.op, Cos) for node in after.nodes if node.types[0].rank == 2)


def test_integers_are_computed_not_looked_up():
    graph = parse_program("""graph @g {
      %0 = input "positions" : i32[rows]
      %1 = add %0, %0 : i32[rows]
      return %1
    }""").main
    assert TabulatePositions(POSITIONS).run_graph(graph).graph is graph
