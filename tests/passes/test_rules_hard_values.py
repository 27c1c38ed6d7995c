"""Identities of small real numbers that infinities, integers, ties or long axes make wrong."""

from typing import Any

import pytest

from ascendfx import rules
from ascendfx.ir.ops import (
    Add,
    Cast,
    Divide,
    Equal,
    GatherRows,
    GreaterEqual,
    Iota,
    Less,
    Linear,
    LogicalNot,
    Minimum,
    Multiply,
    Negate,
    ReduceMean,
    ReduceSum,
    Select,
    Sigmoid,
    Slice,
    Softmax,
    Subtract,
    Topk,
)
from ascendfx.ir.ops.argmax import Argmax
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.check_rule import problems_of_rule
from tests.passes.hard_value_rules import BITWISE, CASES, EXHAUSTIVE, ONE, TWO, c, problems
from tests.passes.small_rules import Operands, program, rule

INTEGERS: Operands = {"x": "i64: * k"}
SIX = {"below": {"x": "six"}, "holes": lambda _: {"six": 6}, **EXHAUSTIVE, **BITWISE}


def quotient(b: Any, h: Any, x: Any, y: Any) -> Any:
    return b.add(Multiply(), y, b.add(Add(), b.add(Divide(), x, y), c(b, 1.0)))


def test_what_is_finite_on_the_left_is_so_on_the_right() -> None:
    found = problems("no-number", lambda b, h, x, y: b.add(Add(), x, y), quotient, TWO)
    assert "y = [-0.0] the left side is 2.0, the right side nan" in found
    found = problems(
        "masked",
        lambda b, h, x, y: b.add(Softmax(h.last), b.add(Add(), x, y)),
        lambda b, h, x, y: b.add(Softmax(h.last), quotient(b, h, x, y)),
        TWO,
    )
    assert "the right side nan" in found


def test_a_mask_may_be_infinite() -> None:
    def chosen(b: Any, h: Any, p: Any, x: Any, y: Any) -> Any:
        first = b.add(Multiply(), x, b.add(Cast(DType.F32), p))
        second = b.add(Multiply(), y, b.add(Cast(DType.F32), b.add(LogicalNot(), p)))
        return b.add(Add(), first, second)

    def select(b: Any, h: Any, p: Any, x: Any, y: Any) -> Any:
        return b.add(Select(), p, x, y)

    operands = {"p": "bool: * k", **TWO}
    assert "the right side nan" in problems("chosen", select, chosen, operands, **EXHAUSTIVE)
    finite = rules.Values(because="what is chosen is no mask")
    ranges = {"values": {"x": finite, "y": finite}}
    declared = problems("chosen", select, chosen, operands, **EXHAUSTIVE, **ranges)
    assert "the right side nan" not in declared


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        (lambda b, h, x: b.add(Minimum(), x, c(b, 5, DType.I64)), lambda b, h, x: x),
        (
            lambda b, h, x: b.add(Less(), x, c(b, 100, DType.I64)),
            lambda b, h, x: b.add(Equal(), x, x),
        ),
        (lambda b, h, x: b.add(Cast(DType.I64), b.add(Cast(DType.I32), x)), lambda b, h, x: x),
        (lambda b, h, x: b.add(Cast(DType.I64), b.add(Cast(DType.F32), x)), lambda b, h, x: x),
    ],
    ids=["minimum", "less", "wraps", "rounds"],
)
def test_integers_have_no_end(lhs: Any, rhs: Any) -> None:
    open_end = problems("integers", lhs, rhs, INTEGERS, **EXHAUSTIVE, **BITWISE)
    assert "the integers of `x` have no end" in open_end
    assert "the left side is" in problems("integers", lhs, rhs, INTEGERS, **SIX)


def test_what_keeps_an_index_below_is_an_operation_or_a_precondition() -> None:
    def clipped(b: Any, h: Any, i: Any, x: Any) -> Any:
        return b.add(GatherRows(), x, b.add(Minimum(), i, c(b, h.n - 1, DType.I64)))

    def gathered(b: Any, h: Any, i: Any, x: Any) -> Any:
        return b.add(GatherRows(), x, i)

    operands = {"i": "i64: r", "x": "f32: n k"}
    options = {"below": {"i": "n"}, **EXHAUSTIVE, **BITWISE}
    found = problems("clip", clipped, gathered, operands, **options)
    assert "the left side is defined, the right side is not" in found
    found = problems("clip", clipped, gathered, operands, **options, below_by={"i": "large"})
    assert "no precondition `large` keeps `i` below `n`" in found


def test_a_decision_is_no_rounding_error() -> None:
    def shifted(b: Any, h: Any, x: Any, y: Any) -> Any:
        total = b.add(Add(), x, y)
        return total, b.add(Argmax(), total)

    found = problems(
        "saturated",
        lambda b, h, x: b.add_multi(Topk(2), b.add(Sigmoid(), x))[1],
        lambda b, h, x: b.add_multi(Topk(2), x)[1],
        ONE,
        minimum={"k": 2},
        **CASES,
    )
    assert "a decision changes, which no rounding excuses" in found
    found = problems(
        "absorbed",
        lambda b, h, x, y: (b.add(Add(), x, y), b.add(Argmax(), x)),
        shifted,
        {"x": "f32: * k", "y": "f32: 1"},
        **CASES,
    )
    assert "a decision changes, which no rounding excuses" in found


def test_axes_may_be_long() -> None:
    def short(b: Any, h: Any, x: Any) -> Any:
        total = b.add(ReduceSum((h.last,)), b.add(Slice(h.last, 0, min(h.k, 6)), x))
        return b.add(Multiply(), total, c(b, 1.0 / h.k))

    def linear(b: Any, h: Any, x: Any, w: Any) -> Any:
        result = b.add(Linear(), x, w)
        return result if h.k <= 8 else b.add(Negate(), result)

    found = problems("mean", lambda b, h, x: b.add(ReduceMean((h.last,)), x), short, ONE)
    assert "the sides differ for k=17" in found
    operands = {"x": "f32: m k", "w": "f32: n k"}
    found = problems("linear", lambda b, h, x, w: b.add(Linear(), x, w), linear, operands)
    assert "the sides differ for k=17" in found

    def counted(b: Any, h: Any, x: Any) -> Any:
        numbers = b.add(Cast(DType.BF16), b.add(Iota(h.k, DType.F32)))
        return b.add(Add(), x, b.add(Cast(DType.F32), numbers))

    exact = problems(
        "count",
        counted,
        lambda b, h, x: b.add(Add(), x, b.add(Iota(h.k, DType.F32))),
        ONE,
        **BITWISE,
    )
    assert "the sides differ for k=259" in exact


@pytest.mark.parametrize(
    ("lhs", "rhs", "operands", "options"),
    [
        (
            lambda b, h, x, y: b.add(LogicalNot(), b.add(Less(), x, y)),
            lambda b, h, x, y: b.add(GreaterEqual(), x, y),
            TWO,
            CASES,
        ),
        (
            lambda b, h, x: b.add(Select(), b.add(Equal(), x, x), x, c(b, 0.0)),
            lambda b, h, x: x,
            ONE,
            {},
        ),
        (
            lambda b, h, x: b.add(Multiply(), b.add(Multiply(), x, c(b, 0.5)), c(b, 2.0)),
            lambda b, h, x: x,
            ONE,
            {},
        ),
        (
            lambda b, h, x: b.add(Multiply(), b.add(Multiply(), x, c(b, 2.0)), c(b, 0.5)),
            lambda b, h, x: x,
            ONE,
            {},
        ),
    ],
    ids=["no-order", "no-number", "subnormal", "overflow"],
)
def test_bits_are_those_of_every_number(lhs: Any, rhs: Any, operands: Any, options: Any) -> None:
    assert "the bits differ" in problems("bits", lhs, rhs, operands, **BITWISE, **options)


def test_a_right_rule_on_integers_and_decisions_passes() -> None:
    def plain(b: Any, h: Any, i: Any, x: Any) -> Any:
        return b.add(GatherRows(), x, i)

    def moved(b: Any, h: Any, i: Any, x: Any) -> Any:
        return b.add(GatherRows(), x, b.add(Subtract(), i, c(b, 0, DType.I64)))

    operands = {"i": "i64: r", "x": "f32: n k"}
    found = problems("plain", moved, plain, operands, below={"i": "n"}, **EXHAUSTIVE, **BITWISE)
    assert found == "no example was given in which it applies"


def test_the_example_keeps_its_values() -> None:
    def scaled(b: Any, h: Any, x: Any) -> Any:
        return b.add(Multiply(), x, c(b, 3.0 if h.k == 12 else 2.0))

    def twice(b: Any, h: Any, x: Any) -> Any:
        return b.add(Add(), x, x)

    example = program('input "x" : f32[12]', "add %0, %0 : f32[12]")
    wrong = rule("twice", twice, scaled, ONE)
    found = list(problems_of_rule(wrong, {"": example}))
    assert found[0].startswith("it changes its example: with x = [")
