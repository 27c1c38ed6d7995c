"""A user's rule is proved before it may run, and told what is wrong with it."""

import dataclasses
from typing import Any

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Constant, Cos, Multiply, Subtract
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.check_rule import CHECKS, check_rule, problems_of_rule
from ascendfx.passes.rule import Rule, SideBuilder, Spelling
from ascendfx.passes.rules import RULES
from tests.passes.guarded_rule import GUARDED, RULE, program
from tests.passes.rule_example import example


def problems(rule: Rule, **examples: Program) -> list[str]:
    named = {name.strip("_").replace("_", "-"): each for name, each in examples.items()}
    return list(problems_of_rule(rule, named, trials=5, seed=0))


def test_a_right_rule_with_examples_passes() -> None:
    check_rule(RULE, examples={"": program()})
    check_rule(GUARDED, examples={"": program(), "integers": program("i64")})


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if len(rule.spellings) <= 4][::15], ids=lambda r: r.name
)
def test_some_of_our_own_rules_pass_as_a_whole(rule: Rule) -> None:
    examples = {"": example(rule.name)}
    examples |= {each.blocks: example(f"{rule.name}.{each.blocks}") for each in rule.when}
    check_rule(rule, examples=examples, trials=5)


def test_a_wrong_sign_is_refused_with_numbers_and_symbols() -> None:
    def wrong(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
        return b.add(Add(), x, y)

    numbers, symbols, changed = problems(dataclasses.replace(RULE, rhs=wrong), _=program())
    assert changed.startswith("it changes its example: with x = [")
    assert " the left side is 0.0" in changed
    assert numbers.startswith("the sides differ for k=")
    assert symbols.endswith("the difference is -2*y_0")


def test_a_constant_that_is_nearly_right_is_refused() -> None:
    def nearly(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
        factor = b.add(Constant(1.000001, DType.F32))
        return b.add(Multiply(), b.add(Subtract(), x, y), factor)

    assert problems(dataclasses.replace(RULE, rhs=nearly), _=program())[0].startswith("the sides")


def test_another_shape_is_refused() -> None:
    def narrow(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
        return b.add(Constant(0.0, DType.F32))

    assert problems(dataclasses.replace(RULE, rhs=narrow), _=program()) == [
        "the left side is f32[2], the right side f32[]"
    ]


def test_a_side_that_is_never_well_typed_is_refused() -> None:
    def fixed(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
        scale = b.add(Constant(h.scale, DType.F32))
        return b.add(Subtract(), b.add(Multiply(), x, scale), b.add(Multiply(), y, scale))

    rule = dataclasses.replace(
        RULE,
        spellings=(Spelling(fixed, {"scale": 1.0}),),
        operands={"x": "* k", "y": "i64: * k"},
        below={"y": "k"},
    )
    assert problems(rule, _=program())[0] == (
        "a side is not well typed: subtract: the left side fits no sizes of ['k']"
    )


def test_examples_are_demanded_and_tried() -> None:
    assert problems(GUARDED) == [
        "no example was given in which it applies",
        "no example was given for the precondition `integers`",
    ]
    assert problems(GUARDED, _=program(operation="cos"), integers=program()) == [
        "it does not apply in its example",
        "it applies in the example of `integers`",
    ]
    assert problems(GUARDED, _=program(), integers=program("f32", "cos")) == [
        "the precondition `integers` is not what forbids it in its example"
    ]


def test_the_message_reads_well() -> None:
    def wrong(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
        return b.add(Subtract(), y, b.add(Cos(), x))

    with pytest.raises(GraphError) as caught:
        check_rule(dataclasses.replace(RULE, rhs=wrong), trials=1)
    first, _, rest = str(caught.value).partition("\n")
    assert first.startswith("error[rule-not-proved]: subtract: the sides differ for k=")
    assert rest == (
        "   = note: it cannot be proved: result 0[0]: the difference is x_0 - 2*y_0 + cos(x_0)\n"
        "   = note: no example was given in which it applies\n"
        "\n"
        "hint: correct a side, or exclude these values with a precondition (when=); what it "
        "ensures of an operand is declared in values= or below="
    )


@pytest.mark.parametrize("examples", [None, {}, {"nothing": program()}])
def test_the_hint_says_how_an_example_is_passed(examples: dict[str, Program] | None) -> None:
    with pytest.raises(GraphError) as caught:
        check_rule(RULE, examples=examples, trials=1)
    assert "no example was given" in str(caught.value)
    assert 'pass examples={"": a Program in which it fires}' in caught.value.hint


def test_each_cause_has_a_hint_of_its_own() -> None:
    hints = {check.name: check.hint for check in CHECKS}
    assert all(hints.values())
    assert "Fidelity.REAL" in hints["fidelity"]
    with pytest.raises(GraphError) as caught:
        check_rule(GUARDED, examples={"": program()}, trials=1)
    assert 'examples={"<blocks>"' in caught.value.hint
    with pytest.raises(GraphError) as caught:
        check_rule(RULE, examples={"": program(operation="cos")}, trials=1)
    assert caught.value.hint == hints["example"]
