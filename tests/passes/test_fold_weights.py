"""Work on weights becomes a weight program that means the same."""

import numpy as np

from ascendfx.ir.interpret import interpret
from ascendfx.ir.program import expand_recipe
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.passes.fold_weights import FoldWeights

TEXT = """\
graph @model {
  %0 = input "x" : f32[rows, 4]
  %1 = call %0 {callee="layer", keys=[["w", "0.w"], ["g", "0.g"]]} : f32[rows, 6]
  return %1
}

graph @layer {
  %0 = input "x" : f32[rows, 4]
  %1 = param "w" : f32[12, 4]
  %2 = slice %1 {axis=0, start=0, stop=6} : f32[6, 4]
  %3 = param "g" : f32[4]
  %4 = multiply %2, %3 : f32[6, 4]
  %5 = linear %0, %4 : f32[rows, 6]
  %6 = slice %1 {axis=0, start=0, stop=6} : f32[6, 4]
  %7 = linear %0, %6 : f32[rows, 6]
  %8 = add %5, %7 : f32[rows, 6]
  return %8
}
"""


def test_folding_keeps_the_meaning_and_leaves_leaves_only() -> None:
    before = parse_program(TEXT)
    result = FoldWeights().run(before)
    after = result.program
    random = np.random.default_rng(0)
    tensors = {
        "x": random.standard_normal((3, 4)),
        "0.w": random.standard_normal((12, 4)),
        "0.g": random.standard_normal(4),
    }
    np.testing.assert_array_equal(interpret(after, tensors)[0], interpret(before, tensors)[0])
    assert result.statistics == {"weights folded": 2}
    assert [node.op.mnemonic for node in after.graphs[1].nodes] == [
        "input",
        "param",
        "linear",
        "param",
        "linear",
        "add",
    ]
    assert parse_program(print_program(after)) == after


def test_folding_again_changes_nothing() -> None:
    once = FoldWeights().run(parse_program(TEXT)).program
    assert FoldWeights().run(once).program is once


def test_a_recipe_of_a_recipe_expands_to_checkpoint_parameters() -> None:
    once = FoldWeights().run(parse_program(TEXT)).program
    nested = parse_program(
        print_program(once) + '\nrecipe @layer "twice" {\n'
        '  %0 = param "w#1" : f32[6, 4]\n  %1 = add %0, %0 : f32[6, 4]\n  return %1\n}\n'
    )
    recipe = expand_recipe(nested, "layer", "twice")
    assert recipe is not None
    assert [node.op.mnemonic for node in recipe.nodes][-1] == "add"
    assert {recipe.op_of(v).name for v in recipe.params} == {"w", "g"}
    assert expand_recipe(nested, "layer", "w") is None
