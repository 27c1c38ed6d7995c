"""Tensors that do not fit the inputs of a program are refused with both shapes."""

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Add, Input
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType

ROWS = TensorType(DType.F32, (named_size("rows"), 4))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            ((3,), (3, 4)),
            "input `x` has 1 axes, not 2\n\nhint: pass an array of shape [rows, 4]",
        ),
        (
            ((3, 4), (2, 4)),
            "input `y` has shape (2, 4); rows should be 3\n\n"
            "hint: pass an array of shape [rows, 4]; a named size is the same in all inputs and in "
            "`sizes`",
        ),
    ],
    ids=["axes", "named size"],
)
def test_shapes_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    builder = GraphBuilder("sum")
    x, y = (builder.add(Input(name, ROWS)) for name in "xy")
    graph = builder.build(builder.add(Add(), x, y))
    tensors = dict(zip("xy", map(np.ones, shapes), strict=True))
    with pytest.raises(GraphError) as caught:
        interpret(graph, tensors)
    assert str(caught.value) == f"error[input-shape]: {message}"
