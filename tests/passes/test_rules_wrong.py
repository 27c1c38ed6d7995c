"""Identities that are wrong, or right on paper only, do not get through the checks."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Divide,
    Exp,
    Greater,
    GreaterEqual,
    Less,
    Linear,
    LogicalNot,
    Multiply,
    Negate,
    ReduceMean,
    ReduceSum,
    Relu,
    RmsNorm,
    Sigmoid,
    Softmax,
    Subtract,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.check_rule import problems_of_rule
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling

_Side = Callable[..., Value | tuple[Value, ...]]


def _wrong(
    name: str,
    lhs: _Side,
    rhs: _Side,
    operands: Mapping[str, str],
    *,
    fidelity: Fidelity = Fidelity.REAL,
    proof: Proof = Proof.SYMBOLIC,
    **holes: Any,
) -> Rule:
    return Rule(
        name=name,
        identity="wrong",
        source="test",
        operands=operands,
        spellings=(Spelling(lhs),),
        rhs=rhs,
        fidelity=fidelity,
        holes=lambda _: holes,
        proof=proof,
    )


def _scores(b: SideBuilder, h: Any, x: Value, bias: Value) -> tuple[Value, Value]:
    score = b.add(Sigmoid(), x)
    return score, b.add(Add(), score, bias)


def _recovered(b: SideBuilder, h: Any, x: Value, bias: Value) -> tuple[Value, Value]:
    biased = b.add(Add(), b.add(Sigmoid(), x), bias)
    return b.add(Subtract(), biased, bias), biased


def _scaled(b: SideBuilder, h: Any, x: Value, s: Value) -> Value:
    return b.add(Divide(), b.add(Multiply(), x, s), s)


def _unscaled(b: SideBuilder, h: Any, x: Value, s: Value) -> Value:
    return x


def _norm(b: SideBuilder, h: Any, x: Value, gain: Value) -> Value:
    half = b.add(Multiply(), x, b.add(Constant(0.5, DType.F32)))
    return b.add(RmsNorm(0.25), half, gain)


def _same_epsilon(b: SideBuilder, h: Any, x: Value, gain: Value) -> Value:
    return b.add(RmsNorm(0.25), x, gain)


def _softmax(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Softmax(h.first), x)


def _divided_late(b: SideBuilder, h: Any, x: Value) -> Value:
    e = b.add(Exp(), x)
    return b.add(Divide(), e, b.add(ReduceSum((h.last,)), e))


def _rounded_sum(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Cast(DType.BF16), b.add(Add(), x, y))


def _sum_of_rounded(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Add(), b.add(Cast(DType.BF16), x), b.add(Cast(DType.BF16), y))


def _relu_of_scaled(b: SideBuilder, h: Any, x: Value, s: Value) -> Value:
    return b.add(Relu(), b.add(Multiply(), x, s))


def _scaled_relu(b: SideBuilder, h: Any, x: Value, s: Value) -> Value:
    return b.add(Multiply(), b.add(Relu(), x), s)


def _variance(b: SideBuilder, h: Any, x: Value) -> Value:
    gap = b.add(Subtract(), x, b.add(ReduceMean((h.last,)), x))
    return b.add(ReduceMean((h.last,)), b.add(Multiply(), gap, gap))


def _difference_of_squares(b: SideBuilder, h: Any, x: Value) -> Value:
    mean = b.add(ReduceMean((h.last,)), x)
    squares = b.add(ReduceMean((h.last,)), b.add(Multiply(), x, x))
    return b.add(Subtract(), squares, b.add(Multiply(), mean, mean))


def _negated_order(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(LogicalNot(), b.add(Less(), x, y))


def _strictly(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Greater(), x, y)


def _turned(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(GreaterEqual(), b.add(Negate(), x), b.add(Negate(), y))


def _gain_on_rows(b: SideBuilder, h: Any, x: Value, w: Value, g: Value) -> Value:
    return b.add(Linear(), b.add(Multiply(), x, g), w)


def _gain_on_result(b: SideBuilder, h: Any, x: Value, w: Value, g: Value) -> Value:
    return b.add(Multiply(), b.add(Linear(), x, w), g)


def _there_and_back(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Cast(DType.F32), b.add(Cast(DType.BF16), x))


def _itself(b: SideBuilder, h: Any, x: Value) -> Value:
    return x


def _error_of_narrow(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Subtract(), x, _there_and_back(b, h, b.add(Negate(), x)))


def _no_error(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Subtract(), x, b.add(Negate(), x))


def _itself_twice(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Add(), x, x)


def _rounded_twice(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Add(), x, _there_and_back(b, h, x))


_PAIR = {"x": "* k", "y": "* k"}
_WRONG = (
    (
        _wrong("sigmoid-from-its-sum", _scores, _recovered, {"x": "* k", "bias": "* k"}),
        "rounding error explodes",
    ),
    (
        _wrong("divide-scale-out", _scaled, _unscaled, {"x": "* k", "s": "* k"}),
        "",
    ),
    (
        _wrong("norm-keeps-epsilon", _norm, _same_epsilon, {"x": "* k", "gain": "k"}),
        "the sides differ",
    ),
    (
        _wrong(
            "softmax-over-another-axis",
            _softmax,
            _divided_late,
            {"x": "m k"},
            first=0,
        ),
        "the sides differ",
    ),
    (_wrong("narrow-before-add", _rounded_sum, _sum_of_rounded, _PAIR), "rounding error explodes"),
    (
        _wrong(
            "relu-of-any-scale",
            _relu_of_scaled,
            _scaled_relu,
            {"x": "* k", "s": "* k"},
            proof=Proof.CASES,
        ),
        "the sides differ",
    ),
    (
        _wrong("variance-from-squares", _variance, _difference_of_squares, {"x": "* k"}),
        "rounding error explodes",
    ),
    (
        _wrong(
            "not-less-is-greater",
            _negated_order,
            _strictly,
            _PAIR,
            fidelity=Fidelity.BITWISE,
            proof=Proof.CASES,
        ),
        "differ",
    ),
    (
        _wrong(
            "order-of-negated",
            _negated_order,
            _turned,
            _PAIR,
            fidelity=Fidelity.BITWISE,
            proof=Proof.CASES,
        ),
        "differ",
    ),
    (
        _wrong(
            "gain-past-projection",
            _gain_on_rows,
            _gain_on_result,
            {"x": "* k", "w": "k k", "g": "k"},
        ),
        "the sides differ",
    ),
    (
        _wrong("cast-there-and-back", _there_and_back, _itself, {"x": "f32: * k"}),
        "it loses or adds the rounding of a cast",
    ),
    (
        _wrong(
            "cast-there-and-back-bitwise",
            _there_and_back,
            _itself,
            {"x": "f32: * k"},
            fidelity=Fidelity.BITWISE,
        ),
        "the bits differ",
    ),
    (
        _wrong(
            "cast-of-error",
            _error_of_narrow,
            _no_error,
            {"x": "f32: * k"},
        ),
        "it loses or adds the rounding of a cast",
    ),
    (
        _wrong("cast-twice", _itself_twice, _rounded_twice, {"x": "f32: * k"}),
        "it loses or adds the rounding of a cast",
    ),
)


@pytest.mark.parametrize(("rule", "reason"), _WRONG, ids=lambda each: getattr(each, "name", None))
def test_a_wrong_rule_is_refused(rule: Rule, reason: str) -> None:
    problems = [each for each in problems_of_rule(rule, {}, trials=5) if "no example" not in each]
    assert any(reason in each for each in problems), problems
