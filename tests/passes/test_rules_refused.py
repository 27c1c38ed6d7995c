"""Wrong rules of users are refused, each with the values for which it is wrong."""

from typing import Any

import pytest

from ascendfx import rules
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Constant,
    Cos,
    Divide,
    Exp,
    Maximum,
    Multiply,
    ReduceMean,
    ReduceSum,
    Relu,
    Sigmoid,
    Silu,
    Softmax,
    Sqrt,
    Subtract,
    Swiglu,
    Topk,
    Transpose,
)
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from tests.passes.small_rules import add, program, refused, rule


def test_a_wrong_axis() -> None:
    def lhs(b: Any, h: Any, x: Value) -> Value:
        return b.add(ReduceSum((0,), keep=False), b.add(Transpose((1, 0)), x))

    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        return b.add(ReduceSum((0,), keep=False), x)

    message = refused(
        rule("sum-of-transpose", lhs, rhs, {"x": "k k"}),
        program(
            'input "x" : f32[3, 3]',
            "transpose %0 {permutation = [1, 0]} : f32[3, 3]",
            "reduce_sum %1 {axes = [0], keep = false} : f32[3]",
        ),
    )
    assert (
        "the sides differ for k=2: with x = [[1.0, 0.0], [-1.0, 1.0]] the left side is " in message
    )
    assert "the difference is x_0_1" in message  # the proof, on symbols


def test_a_wrong_constant() -> None:
    def lhs(b: Any, h: Any, x: Value) -> Value:
        return b.add(Multiply(), b.add(Multiply(), x, b.add(Constant(0.1, DType.F32))), x)

    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        return b.add(Multiply(), b.add(Multiply(), x, x), b.add(Constant(0.10001, DType.F32)))

    message = refused(
        rule("scaled-square", lhs, rhs, {"x": "f32: * k"}),
        program(
            'input "x" : f32[tokens]',
            "constant {value = 0.1, dtype = f32} : f32[]",
            "multiply %0, %1 : f32[tokens]",
            "multiply %2, %0 : f32[tokens]",
        ),
    )
    assert "the sides differ" in message
    assert "x = [" in message
    assert "x_0**2/100000" in message
    assert "looks like" not in message


def test_a_missing_precondition_on_the_sign() -> None:
    def lhs(b: Any, h: Any, x: Value, s: Value) -> Value:
        return b.add(Relu(), b.add(Multiply(), x, s))

    def rhs(b: GraphBuilder, h: Any, x: Value, s: Value) -> Value:
        return b.add(Multiply(), b.add(Relu(), x), s)

    options = {"proof": rules.Proof.CASES}
    example = program(
        'input "x" : f32[tokens]',
        'input "s" : f32[tokens]',
        "multiply %0, %1 : f32[tokens]",
        "relu %2 : f32[tokens]",
    )
    operands = {"x": "* k", "s": "* k"}
    message = refused(rule("relu-of-scaled-wrong", lhs, rhs, operands, **options), example)
    assert "the sides differ" in message
    assert "where -s_0 >= 0, -s_0 > 0, -x_0 > 0, for example s_0 = -1, x_0 = -1" in message

    positive = {"s": rules.Values(low=0.0)}
    message = refused(
        rule("relu-of-scaled-wrong", lhs, rhs, operands, values=positive, **options), example
    )
    assert "`s` may be negative: no precondition is said to exclude it" in message
    assert (
        "it fires where it is wrong, a precondition is missing: as it stands: with x = " in message
    )


def test_a_missing_precondition_on_the_shape() -> None:
    def lhs(b: Any, h: Any, gate: Value, up: Value) -> Value:
        return b.add(Multiply(), b.add(Silu(), gate), up)

    def rhs(b: GraphBuilder, h: Any, gate: Value, up: Value) -> Value:
        return b.add(Swiglu(), gate, up)

    message = refused(
        rule("swiglu-of-any-shapes", lhs, rhs, {"gate": "* k", "up": "* k"}),
        program(
            'input "x" : f32[tokens, 4]',
            "silu %0 : f32[tokens, 4]",
            "multiply %1, %0 : f32[tokens, 4]",
        ),
    )
    assert "it fires where it is wrong, a precondition is missing: `gate` has leading axes ()" in (
        message
    )


def test_a_lie_about_bits() -> None:
    def lhs(b: Any, h: Any, x: Value, y: Value, z: Value) -> Value:
        return add(b, add(b, x, y), z)

    def rhs(b: GraphBuilder, h: Any, x: Value, y: Value, z: Value) -> Value:
        return add(b, x, add(b, y, z))

    options = {"fidelity": rules.Fidelity.BITWISE, "cyclic": True}
    message = refused(
        rule("associate", lhs, rhs, {"x": "* k", "y": "* k", "z": "* k"}, **options),
        program(
            'input "x" : f32[tokens]',
            "cos %0 : f32[tokens]",
            "add %0, %1 : f32[tokens]",
            "add %2, %0 : f32[tokens]",
        ),
    )
    assert "the bits differ: " in message
    assert "with x = [" in message


def test_zero_has_a_sign() -> None:
    def lhs(b: Any, h: Any, x: Value) -> Value:
        return add(b, x, b.add(Constant(0.0, DType.F32)))

    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        return x

    message = refused(
        rule("add-zero", lhs, rhs, {"x": "f32: * k"}, fidelity=rules.Fidelity.BITWISE),
        program(
            'input "x" : f32[tokens]',
            "constant {value = 0.0, dtype = f32} : f32[]",
            "add %0, %1 : f32[tokens]",
        ),
    )
    assert "the bits differ: the left side is 0.0, the right side -0.0 at [" in message
    assert "; in float64 the left side is " in message


def variance(b: Any, x: Value, axis: int) -> Value:
    centred = b.add(Subtract(), x, b.add(ReduceMean((axis,)), x))
    return b.add(ReduceMean((axis,)), b.add(Multiply(), centred, centred))


def test_exploding_rounding_a_difference_of_squares() -> None:
    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        mean = b.add(ReduceMean((h.last,)), x)
        squares = b.add(ReduceMean((h.last,)), b.add(Multiply(), x, x))
        return b.add(Subtract(), squares, b.add(Multiply(), mean, mean))

    message = refused(
        rule("variance", lambda b, h, x: variance(b, x, h.last), rhs, {"x": "* k"}),
        program(
            'input "x" : f32[tokens, 4]',
            "reduce_mean %0 {axes = [1], keep = true} : f32[tokens, 1]",
            "subtract %0, %1 : f32[tokens, 4]",
            "multiply %2, %2 : f32[tokens, 4]",
            "reduce_mean %3 {axes = [1], keep = true} : f32[tokens, 1]",
        ),
    )
    assert message.startswith(
        "error[rule-not-proved]: variance: its rounding error explodes: with x = ["
    )
    assert "times that of the left side" in message


def test_exploding_rounding_a_sigmoid_behind_a_bias() -> None:
    def lhs(b: Any, h: Any, x: Value, bias: Value) -> tuple[Value, Value]:
        score = b.add(Sigmoid(), x)
        return add(b, score, bias), score

    def rhs(b: GraphBuilder, h: Any, x: Value, bias: Value) -> tuple[Value, Value]:
        biased = add(b, b.add(Sigmoid(), x), bias)
        return biased, b.add(Subtract(), biased, bias)

    message = refused(
        rule("recover-score", lhs, rhs, {"x": "* k", "bias": "k"}, cyclic=True),
        program(
            'input "x" : f32[tokens, 4]',
            'input "b" : f32[4]',
            "sigmoid %0 : f32[tokens, 4]",
            "add %2, %1 : f32[tokens, 4]",
        ),
    )
    assert "its rounding error explodes: with x = [" in message


def test_exploding_rounding_a_softmax_without_its_shift() -> None:
    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        weights = b.add(Exp(), x)
        return b.add(Divide(), weights, b.add(ReduceSum((h.last,)), weights))

    message = refused(
        rule("plain-softmax", lambda b, h, x: b.add(Softmax(h.last), x), rhs, {"x": "* k"}),
        program('input "x" : f32[tokens, 4]', "softmax %0 {axis = 1} : f32[tokens, 4]"),
    )
    assert "the bound of the right side is inf times that of the left side" in message


def test_an_ill_typed_side() -> None:
    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        return b.add(Multiply(), x, b.add(Constant(h.factor, DType.F32)))

    message = refused(
        rule("cosine", lambda b, h, x: b.add(Cos(), x), rhs, {"x": "* k"}),
        program('input "x" : f32[tokens]', "cos %0 : f32[tokens]"),
    )
    assert "it reads the hole `factor`, which the left side does not capture" in message


def test_a_dead_rule() -> None:
    def lhs(b: Any, h: Any, x: Value) -> Value:
        return b.add(Sqrt(), b.add(Exp(), x))

    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        return b.add(Exp(), b.add(Multiply(), x, b.add(Constant(0.5, DType.F32))))

    message = refused(
        rule("root-of-exp", lhs, rhs, {"x": "f32: * k"}, values={"x": SMALL}),
        program('input "x" : f32[tokens]', "exp %0 : f32[tokens]", "cos %1 : f32[tokens]"),
    )
    assert message.splitlines()[0].endswith("it does not apply in its example")


SMALL = rules.Values(-8.0, 8.0, because="test")


def swap(**options: Any) -> rules.Rule:
    return rule(
        "swap",
        lambda b, h, x, y: add(b, x, y),
        lambda b, h, x, y: add(b, y, x),
        {"x": "* k", "y": "* k"},
        fidelity=rules.Fidelity.BITWISE,
        **options,
    )


SWAPPED = program('input "x" : f32[tokens]', "cos %0 : f32[tokens]", "add %0, %1 : f32[tokens]")


@pytest.mark.parametrize("examples", [{"": SWAPPED}, {}])
def test_a_rule_that_matches_its_own_result_for_ever(examples: dict[str, Program]) -> None:
    with pytest.raises(GraphError) as caught:
        rules.check(swap(), examples=examples)
    message = str(caught.value)
    assert message.splitlines()[0] == (
        "error[rule-not-proved]: swap: it matches its own result again and again: "
        "after 12 rounds a rule still applies: `swap` 12 times"
    )
    assert "hint: set cyclic=True" in message
    assert "a right side that the left side does not match" in message
    for wrong in ("precondition", "not well typed"):
        assert wrong not in message
    assert message.count("again and again") == 1


def test_the_remedy_for_a_rule_that_never_ends_is_one() -> None:
    rules.check(swap(cyclic=True), examples={"": SWAPPED})


def test_a_rule_that_never_ends_in_the_example_of_a_precondition() -> None:
    def ends(site: rules.Site) -> bool:
        return site.type_of("x").dtype is not DType.I32

    narrow = rules.Precondition("integers", ends, "swap: integers")
    integers = program('input "x" : i64[4]', "negate %0 : i64[4]", "add %0, %1 : i64[4]")
    guarded = swap(when=(narrow,), proof=rules.Proof.SYMBOLIC)
    with pytest.raises(GraphError) as caught:
        rules.check(guarded, examples={"": SWAPPED, "integers": integers})
    message = str(caught.value)
    assert "not well typed" not in message
    assert message.count("again and again") == 1
    assert "hint: set cyclic=True" in message


def test_a_proof_of_the_wrong_kind() -> None:
    def lhs(b: Any, h: Any, x: Value, y: Value) -> Value:
        return b.add(Maximum(), x, y)

    def rhs(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
        return add(b, y, b.add(Relu(), b.add(Subtract(), x, y)))

    example = program(
        'input "x" : f32[tokens]', "cos %0 : f32[tokens]", "maximum %0, %1 : f32[tokens]"
    )
    message = refused(rule("maximum", lhs, rhs, {"x": "* k", "y": "* k"}), example)
    assert "its proof is `cases`, not `symbolic`" in message


def test_an_order_that_a_function_changes() -> None:
    def lhs(b: Any, h: Any, x: Value) -> Value:
        return b.add_multi(Topk(1), b.add(Multiply(), x, x))[1]

    def rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
        return b.add_multi(Topk(1), x)[1]

    message = refused(
        rule("topk-of-square", lhs, rhs, {"x": "* k"}, minimum={"k": 2}, proof=rules.Proof.CASES),
        program(
            'input "x" : f32[tokens, 4]',
            "multiply %0, %0 : f32[tokens, 4]",
            "topk %1 {k = 1} : f32[tokens, 1], i64[tokens, 1]",
        ),
    )
    assert "it cannot be proved: result 0[0] where" in message
    assert "x_0**2 - x_1**2 > 0" in message
