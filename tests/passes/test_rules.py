"""Every rule is proved twice, shown to fire, and refused when it is wrong."""

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Multiply, RmsNorm
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.check_rule import symbolic_difference
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, Spelling
from ascendfx.passes.rule_sides import holes_of, side_of, side_or_none, unequal_sizes
from ascendfx.passes.rules import RULES, rms_norm
from tests.strategies.program_tensors import random_tensors
from tests.strategies.rounding_bound import assert_equal_up_to_rounding
from tests.strategies.rule_sides import operands_of, sizes_of

_EXAMPLES = Path(__file__).parents[1] / "filecheck"

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
every_spelling = pytest.mark.parametrize(
    ("rule", "spelling"),
    [(rule, spelling) for rule in RULES for spelling in rule.spellings],
    ids=lambda each: each.name if isinstance(each, Rule) else None,
)


def example(name: str) -> Program:
    return parse_program((_EXAMPLES / f"{name}.ir").read_text(encoding="utf-8"), file=name)


def apply(rule: Rule, program: Program) -> Program:
    return ApplyRules((rule,)).run(program).program


@pytest.mark.parametrize(
    "rule", [r for r in RULES if r.proof is not Proof.CASES], ids=lambda r: r.name
)
def test_sides_are_equal_as_expressions(rule: Rule) -> None:
    for spelling in rule.spellings:
        assert not symbolic_difference(rule, spelling)


@every_spelling
@settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_sides_are_equal_as_numbers(rule: Rule, spelling: Spelling, data: st.DataObject) -> None:
    holes = holes_of(rule, spelling, data.draw(sizes_of(rule)))
    lhs = side_or_none(rule, spelling.lhs, holes)
    assume(lhs is not None)
    rhs = side_of(rule, rule.rhs, holes)
    operands = data.draw(operands_of(rule, holes))
    assert_equal_up_to_rounding(lhs, rhs, operands)


@every_spelling
def test_sides_have_equal_types_for_unequal_sizes(rule: Rule, spelling: Spelling) -> None:
    for lead in ((), (7,), (7, 8)):
        holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, lead))
        lhs, rhs = side_of(rule, spelling.lhs, holes), side_of(rule, rule.rhs, holes)
        assert lhs.output_types == rhs.output_types


@every_spelling
def test_fires_on_every_spelling(rule: Rule, spelling: Spelling) -> None:
    unguarded = dataclasses.replace(rule, when=(), derive=lambda _: {"experts": 5})
    holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, (7,)))
    lhs = side_of(rule, spelling.lhs, holes)
    after = ApplyRules((unguarded,)).run_graph(lhs).graph
    assert after == side_of(rule, rule.rhs, holes)


@every_rule
def test_fires_on_its_example_and_keeps_the_result(rule: Rule) -> None:
    before = example(rule.name)
    after = apply(rule, before)
    assert after != before
    assert_equal_up_to_rounding(before, after, random_tensors(before, seed=0, ids=2))
    assert all(node.location.line > 0 for node in after.main.nodes)


@pytest.mark.parametrize(
    ("rule", "condition"),
    [(rule, condition) for rule in RULES for condition in rule.when],
    ids=lambda each: each.name if isinstance(each, Rule) else each.blocks,
)
def test_each_precondition_alone_blocks_its_example(rule: Rule, condition: Precondition) -> None:
    program = example(f"{rule.name}.{condition.blocks}")
    result = ApplyRules((rule,)).run(program)
    assert result.program is program
    assert any(condition.otherwise in remark for remark in result.remarks)
    others = tuple(each for each in rule.when if each is not condition)
    with suppress(GraphError, AttributeError):  # the rewrite would not even be well typed
        assert apply(dataclasses.replace(rule, when=others), program) != program


def test_the_proofs_refuse_a_wrong_rule() -> None:
    def gain_is_squared(b: GraphBuilder, h: Any, x: Value, g: Value) -> Value:
        return b.add(RmsNorm(h.eps), x, b.add(Multiply(), g, g))

    wrong = dataclasses.replace(rms_norm.RULE, rhs=gain_is_squared)
    spelling = wrong.spellings[0]
    assert symbolic_difference(wrong, spelling)
    holes = holes_of(wrong, spelling, {"k": 3, "lead": (2,)})
    lhs, rhs = side_of(wrong, spelling.lhs, holes), side_of(wrong, wrong.rhs, holes)
    operands = {"x": np.ones((2, 3)), "g": np.full(3, 2.0)}
    with pytest.raises(AssertionError, match="exceeds"):
        assert_equal_up_to_rounding(lhs, rhs, operands)


def test_bitwise_rules_give_the_same_bits() -> None:
    for rule in RULES:
        if rule.fidelity is Fidelity.BITWISE:
            before = example(rule.name)
            tensors = random_tensors(before, seed=1, ids=2)
            results = zip(
                interpret(before, tensors), interpret(apply(rule, before), tensors), strict=True
            )
            assert all(np.array_equal(a, c) for a, c in results)
