"""Random tensors are those that a program reads: recipes included, whatever they are of."""

import numpy as np

from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Input, Linear, Multiply, Param
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.random_weights import checkpoint_types, random_weights


def test_a_program_with_recipes_runs_on_its_random_tensors() -> None:
    builder = GraphBuilder("g")
    x = builder.add(Input("x", TensorType(DType.F32, (2, 4))))
    a, b = (builder.add(Param(name, TensorType(DType.F32, (3, 4)))) for name in "ab")
    before = Program((builder.build(builder.add(Linear(), x, builder.add(Multiply(), a, b))),))
    after = FoldWeights().run(before).program
    assert after.recipes
    assert checkpoint_types(after) == checkpoint_types(before)
    assert random_weights(after, 0).keys() == {"a", "b"}
    tensors = random_tensors(after, seed=0)
    assert tensors.keys() == {"x", "a", "b"}
    (one,), (other,) = interpret(before, tensors), interpret(after, tensors)
    assert np.array_equal(one, other)
