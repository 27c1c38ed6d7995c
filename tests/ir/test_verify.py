"""Whole-program checks refuse what single nodes cannot see."""

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.ops import Constant
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.verify import verify_program
from tests.ir.whole_program import GOOD


def test_a_right_program_passes() -> None:
    verify_program(parse_program(GOOD))


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ('callee="f"', 'callee="g"', "unknown-graph"),
        ("graph @f", "graph @main", "duplicate-graph"),
        ("%1 = call %0", "%1 = call %0, %0", "call-type"),
        ('keys=[["w", "0.w"]]} : f32[2]', 'keys=[["w", "0.w"]]} : f32[3]', "call-type"),
        ('keys=[["w", "0.w"]]', 'keys=[["v", "0.w"]]', "unbound-parameter"),
        ('recipe @f "w#1"', 'recipe @g "w#1"', "unbound-parameter"),
        (
            '  %0 = param "w" : f32[2]\n  %1 = add %0, %0 : f32[2]',
            '  %0 = param "w" : f32[3]\n  %1 = add %0, %0 : f32[3]',
            "recipe",
        ),
        (
            "  %2 = add %0, %1 : f32[2]",
            '  %2 = call %0 {callee="main", keys=[]} : f32[2]',
            "recursion",
        ),
        (
            '%1 = param "w#1" : f32[2]',
            '%1 = input "x" : f32[2]',
            "duplicate-input",
        ),
        ('  %0 = param "w" : f32[2]', '  %0 = param "w#1" : f32[2]', "recursion"),
        (
            "%2 = add %0, %1 : f32[2]\n  return %2",
            '%2 = add %0, %1 : f32[2]\n  %3 = param "w" : f32[3]\n  return %2',
            "parameter-type",
        ),
    ],
)
def test_each_fault_is_named(before: str, after: str, code: str) -> None:
    assert before in GOOD
    with pytest.raises(GraphError, match=rf"error\[{code}\]"):
        verify_program(parse_program(GOOD.replace(before, after)))


def test_calls_nested_without_end_are_refused() -> None:
    depth = 1_500
    lines: list[str] = []
    for i in range(depth):
        lines += [f"graph @g{i} {{", '%0 = input "x" : f32[2]']
        lines += [f'%1 = call %0 {{callee="g{i + 1}", keys=[]}} : f32[2]', "return %1", "}"]
    lines += [f"graph @g{depth} {{", '%0 = input "x" : f32[2]', "return %0", "}"]
    with pytest.raises(GraphError, match="calls are nested more than 100 deep"):
        verify_program(parse_program("\n".join(lines)))


def test_recipes_in_a_circle_or_without_end_are_refused() -> None:
    def chain(depth: int, last: str) -> str:
        lines = ["graph @g {", '%0 = param "w0" : f32[2]', "return %0", "}"]
        for i in range(depth):
            made_of = last if i == depth - 1 else f"w{i + 1}"
            lines += [f'recipe @g "w{i}" {{', f'%0 = param "{made_of}" : f32[2]', "return %0", "}"]
        return "\n".join(lines)

    verify_program(parse_program(chain(50, "checkpoint")))
    with pytest.raises(GraphError, match="in a circle: `w0`, `w1`, `w0`") as caught:
        verify_program(parse_program(chain(2, "w0")))
    assert caught.value.location.line == 6
    with pytest.raises(GraphError, match="hang on each other"):
        verify_program(parse_program(chain(1_500, "checkpoint")))


@pytest.mark.parametrize("value", [0.5, float("inf"), float("nan"), 1e23])
def test_a_constant_that_a_pass_made_is_a_number_of_its_format(value: float) -> None:
    builder = GraphBuilder("g")
    graph = builder.build(builder.add(Constant(value, DType.I32)))
    with pytest.raises(GraphError, match=r"error\[constant-value\]"):
        verify_program(Program((graph,)))
