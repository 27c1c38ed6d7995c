"""What a refused rule is told: plain numbers, names of constants, examples that nobody reads."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from ascendfx import rules
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Constant, Multiply
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.proof.irrational_constants import looks_like
from tests.passes.guarded_rule import GUARDED
from tests.passes.guarded_rule import program as guarded_program
from tests.passes.small_rules import add, program, refused, rule


def test_an_irrational_constant_is_named() -> None:
    half = math.sqrt(2) / 2

    def lhs(b: Any, h: Any, x: Value) -> Value:
        root = b.add(Constant(half, DType.F32))
        return b.add(Multiply(), b.add(Multiply(), x, root), root)

    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        return b.add(Multiply(), x, b.add(Constant(0.5, DType.F32)))

    message = refused(
        rule("halved", lhs, rhs, {"x": "f32: * k"}),
        program(
            'input "x" : f32[tokens]',
            f"constant {{value = {half!r}, dtype = f32}} : f32[]",
            "multiply %0, %1 : f32[tokens]",
            "multiply %2, %1 : f32[tokens]",
        ),
    )
    assert "0.7071067811865476 looks like sqrt(1/2), which is irrational" in message
    assert "make it a lossy pass" in message


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (math.sqrt(2), "sqrt(2)"),
        (math.sqrt(2 / math.pi), "sqrt(1/(pi / 2))"),
        (-math.pi / 4, "-pi / 4"),
        (math.log(2), "ln 2"),
        (1 / math.log(2), "1/ln 2"),
        (float(np.float32(math.e)), "e"),
        (2 * math.pi / 3, "2 pi / 3"),
        (0.1, ""),
        (0.044715, ""),
        (1e-6, ""),
        (1.702, ""),
        (0.3333333333333333, ""),
        (math.inf, ""),
        (0.0, ""),
    ],
)
def test_which_number_a_constant_looks_like(value: float, name: str) -> None:
    assert looks_like(value) == name


def test_a_message_shows_no_python_objects() -> None:
    def lhs(b: Any, h: Any, x: Value, y: Value) -> Value:
        return add(b, add(b, x, y), y)

    def rhs(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
        return add(b, x, add(b, y, y))

    message = refused(
        rule("associate-two", lhs, rhs, {"x": "* k", "y": "* k"}, fidelity=rules.Fidelity.BITWISE),
        program(
            'input "x" : f32[tokens]',
            'input "y" : f32[tokens]',
            "add %0, %1 : f32[tokens]",
            "add %2, %1 : f32[tokens]",
        ),
    )
    assert "the bits differ: the left side is " in message
    for text in ("np.", "array(", "Value(", "float64(", "Add()"):
        assert text not in message, text
    for line in message.splitlines():
        assert "differ" not in line or ("with x = [" in line and "in float64" in line), line


def test_an_example_that_no_check_looks_at_is_refused() -> None:
    sub = guarded_program()
    extra = {"": sub, "intergers": guarded_program("i64")}
    with pytest.raises(GraphError) as caught:
        rules.register(dataclasses.replace(GUARDED, name="extra-example"), examples=extra)
    assert (
        "there is an example for `intergers`, which is no precondition: its preconditions are "
        "`integers`" in str(caught.value)
    )
