"""Rules that are wrong where several operands meet: as neighbours, as infinities, as integers."""

from typing import Any

import numpy as np
import pytest

from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Equal,
    Exp,
    Expand,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    LogicalNot,
    Multiply,
    ReduceSum,
    Select,
    Softmax,
    Subtract,
    Topk,
)
from ascendfx.ir.ops.argmax import Argmax
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.check_rule import problems_of_rule
from ascendfx.passes.proof.close_operands import KINDS_OF_DRAWS, close_operands
from ascendfx.passes.proof.meeting_values import special_numbers, special_pairs
from ascendfx.passes.rule_sides import holes_of
from tests.passes.hard_value_rules import BITWISE, CASES, EXHAUSTIVE, ONE, TWO, c, problems
from tests.passes.small_rules import program, rule

INTEGERS = {"x": "i32: * k", "y": "i32: * k"}
FOUR = {**TWO, "a": "f32: * k", "d": "f32: * k"}
BELOW = {"below": {"x": "k", "y": "k"}, **EXHAUSTIVE, **BITWISE}
NO_EXAMPLE = "no example was given in which it applies"


def compared(op: Any, change: Any = lambda b, x: x) -> Any:
    return lambda b, h, x, y: b.add(op(), change(b, x), change(b, y))


def times(factor: float) -> Any:
    return lambda b, x: b.add(Multiply(), x, c(b, factor))


def plus(addend: float) -> Any:
    return lambda b, x: b.add(Add(), x, c(b, addend))


def chosen(op: Any, change: Any = lambda b, x: x) -> Any:
    return lambda b, h, x: b.add_multi(op, change(b, x))[-1]


@pytest.mark.parametrize(
    "change",
    [plus(1.0), plus(-100.0), times(0.1), times(3.0), times(2.0**-140), times(2.0**124)],
    ids=["plus-1", "minus-100", "tenth", "thrice", "tiny", "huge"],
)
def test_operands_of_a_comparison_are_neighbours_of_each_other(change: Any) -> None:
    found = problems("moved", compared(Greater), compared(Greater, change), TWO, **CASES)
    assert "a decision changes, which no rounding excuses" in found


@pytest.mark.parametrize("op", [Argmax(), Topk(2)], ids=["argmax", "topk"])
@pytest.mark.parametrize("change", [times(0.1), times(0.75), plus(1.0)], ids=lambda _: "")
def test_elements_of_an_axis_are_neighbours_of_each_other(op: Any, change: Any) -> None:
    options = {"minimum": {"k": 2}, "cyclic": True, **CASES}
    found = problems("moved", chosen(op), chosen(op, change), ONE, **options)
    assert "a decision changes, which no rounding excuses" in found


def test_what_a_decision_inside_chose_is_compared() -> None:
    def select(change: Any) -> Any:
        def side(b: Any, h: Any, x: Any, y: Any, a: Any, d: Any) -> Any:
            return b.add(Select(), b.add(Greater(), change(b, x), change(b, y)), a, d)

        return side

    found = problems("inside", select(lambda b, x: x), select(plus(1.0)), FOUR, **CASES)
    assert "a decision changes, which no rounding excuses" in found


def test_a_decision_that_no_rounding_changes_passes() -> None:
    options = {"cyclic": True, **CASES}
    right = problems("halved", compared(Greater), compared(Greater, times(-1.0)), TWO, **options)
    assert "the sides differ" in right
    right = problems("argmax", chosen(Argmax()), chosen(Argmax(), times(4.0)), ONE, **options)
    assert right == NO_EXAMPLE


@pytest.mark.parametrize("op", [Equal, LessEqual, GreaterEqual])
@pytest.mark.parametrize("fidelity", [BITWISE, {}], ids=["bitwise", "real"])
def test_infinities_of_two_operands_meet(op: Any, fidelity: Any) -> None:
    def difference(b: Any, h: Any, x: Any, y: Any) -> Any:
        return b.add(op(), b.add(Subtract(), x, y), c(b, 0.0))

    found = problems("difference", compared(op), difference, TWO, **CASES, **fidelity)
    assert "inf" in found.splitlines()[0]
    assert "the left side is True, the right side False" in found


def test_every_pair_of_special_numbers_meets() -> None:
    kinds = {"x": DType.F32, "y": DType.BF16, "z": DType.F32}
    tensors = {name: np.zeros((2,)) for name in kinds}
    pairs = list(special_pairs(tensors, kinds, np.random.default_rng(0)))
    met = {(repr(each["x"][0]), repr(each["y"][0])) for each in pairs}
    wide, narrow = special_numbers(DType.F32), special_numbers(DType.BF16)
    assert {(repr(np.float64(n)), repr(np.float64(n))) for n in (-np.inf, np.nan, -0.0)} <= met
    assert len(pairs) == len(wide) * len(narrow)


def test_no_number_is_outside_of_what_real_promises() -> None:
    def negated(b: Any, h: Any, x: Any, y: Any) -> Any:
        return b.add(LogicalNot(), b.add(Greater(), x, y))

    assert problems("order", negated, compared(LessEqual), TWO, **CASES) == NO_EXAMPLE
    bits = problems("order", negated, compared(LessEqual), TWO, **CASES, **BITWISE)
    assert "nan" in bits


def as_float(b: Any, x: Any) -> Any:
    return b.add(Cast(DType.F32), x)


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        (compared(Equal), compared(Equal, as_float)),
        (compared(Less), compared(Less, as_float)),
        (lambda b, h, x, y: as_float(b, b.add(Add(), x, y)), compared(Add, as_float)),
        (
            compared(Less),
            lambda b, h, x, y: b.add(
                Less(), b.add(Subtract(), x, y), b.add(Constant(0, DType.I32))
            ),
        ),
    ],
    ids=["equal", "less", "sum", "wraps"],
)
@pytest.mark.parametrize("seed", range(3))
def test_integers_of_two_operands_meet(lhs: Any, rhs: Any, seed: int) -> None:
    wrong = rule("integers", lhs, rhs, INTEGERS, **BELOW)
    found = "\n".join(problems_of_rule(wrong, {}, seed=seed))
    assert "the left side is" in found.splitlines()[0]


def test_right_integer_rules_pass() -> None:
    def swapped(b: Any, h: Any, x: Any, y: Any) -> Any:
        return b.add(Add(), y, x)

    right = problems("swapped", compared(Add), swapped, INTEGERS, cyclic=True, **BELOW)
    assert right == NO_EXAMPLE


def test_close_operands_share_a_centre_of_any_mantissa_and_size() -> None:
    exponential = rule("two", compared(Exp), compared(Exp), TWO)
    holes = holes_of(exponential, exponential.spellings[0], {"k": 3, "lead": (16,)})
    random = np.random.default_rng(0)
    drawn = [close_operands(exponential, holes, random, i) for i in range(KINDS_OF_DRAWS)]
    near = [np.max(np.abs(each["x"] / each["y"] - 1)) < 1e-5 for each in drawn[1:]]
    assert sum(near) >= 4
    sizes = np.abs(drawn[1]["x"])
    assert sizes.max() > 1e10
    assert sizes.min() < 1e-10
    mantissas = np.frexp(drawn[-1]["x"])[0]
    assert len(set(np.round(mantissas, 2).ravel())) > 8


def test_an_empty_axis_is_no_site() -> None:
    ones = rule(
        "sum-of-softmax",
        lambda b, h, x: b.add(ReduceSum((1,)), b.add(Softmax(1), x)),
        lambda b, h, x: b.add(Expand((h.a, 1)), c(b, 1.0)),
        {"x": "f32: a k"},
    )

    def applied(size: int) -> list[str]:
        before = program(
            f'input "x" : f32[4, {size}]',
            f"softmax %0 {{axis=1}} : f32[4, {size}]",
            "reduce_sum %1 {axes=[1], keep=true} : f32[4, 1]",
        )
        result = ApplyRules((ones,)).run(before)
        return [str(each) for each in result.remarks] if result.program is before else []

    assert applied(1) == []
    assert "the axis `k` has no elements, of which the rule says nothing" in applied(0)[0]
