"""The error of a layer is that of its own results, whatever step or result they are of."""

import math

from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.location import Location
from ascendfx.ir.ops import Call, Input
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.verification.compare_step import LOGITS, Difference
from ascendfx.passes.verification.layer_errors import LayerError, layer_errors


def program(*modules: str) -> Program:
    builder = GraphBuilder("main")
    value = builder.add(Input("x", TensorType(DType.F32, (2,))))
    for module in modules:
        with builder.at(Location("model.py", 1, module)):
            value = builder.add(Call("layer", (TensorType(DType.F32, (2,)),), ()), value)
    return Program((builder.build(value),))


def difference(step: int, call: int, largest: float, bound: float) -> Difference:
    return Difference(step, call, 0, "layer", largest, 4 * largest**2, 4, bound)


def test_steps_of_a_layer_are_put_together_and_logits_come_last() -> None:
    found = layer_errors(
        program("layers.0", ""),
        [
            difference(0, 0, 1.0, 10.0),
            difference(0, 1, 0.0, 1.0),
            difference(0, LOGITS, 5.0, 1.0),
            difference(1, 0, 3.0, 100.0),
        ],
    )
    assert found == (
        LayerError("layers.0", 3.0, math.sqrt(5.0), 10.0, broken=False),
        LayerError("call 1", 0.0, 0.0, 1.0, broken=False),
        LayerError("logits", 5.0, 5.0, 1.0, broken=True),
    )


def test_a_program_without_layers_has_its_logits() -> None:
    assert [each.module for each in layer_errors(program(), [difference(0, LOGITS, 0, 0)])] == [
        "logits"
    ]
