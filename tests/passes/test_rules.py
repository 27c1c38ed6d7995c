"""Every rule is proved twice, shown to fire, and refused when it is wrong."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascendfx.ir.program import Program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.check_rule import CHECKS, Checked, RuleCheck, SpellingCheck
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rule_sides import holes_of, side_of, side_or_none, unequal_sizes
from ascendfx.passes.rules import RULES
from tests.passes.rule_example import example
from tests.strategies.rounding_bound import assert_equal_up_to_rounding
from tests.strategies.rule_sides import operands_of, sizes_of

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
_MANY = 12
"""Spellings of a rule beyond which the default run proves some; the nightly run proves all."""


def some_spellings() -> list[Any]:
    return [
        pytest.param(rule, spelling, id=f"{rule.name}-{i}")
        for rule in RULES
        for i, spelling in enumerate(rule.spellings)
        if len(rule.spellings) <= _MANY or i % (len(rule.spellings) // 5) == 0
    ]


each_spelling = pytest.mark.parametrize(("rule", "spelling"), some_spellings())
every_spelling = pytest.mark.parametrize(
    ("rule", "spelling"),
    [(rule, spelling) for rule in RULES for spelling in rule.spellings],
    ids=lambda each: each.name if isinstance(each, Rule) else None,
)


def apply(rule: Rule, program: Program) -> Program:
    return ApplyRules((rule,)).run(program).program


def of_spellings() -> list[Any]:
    return [pytest.param(each, id=each.name) for each in CHECKS if isinstance(each, SpellingCheck)]


def of_rules() -> list[Any]:
    return [pytest.param(each, id=each.name) for each in CHECKS if isinstance(each, RuleCheck)]


def checked(rule: Rule, trials: int = 5) -> Checked:
    examples = {each.blocks: example(f"{rule.name}.{each.blocks}") for each in rule.when}
    return Checked(rule, {"": example(rule.name), **examples}, trials=trials)


@each_spelling
@pytest.mark.parametrize("check", of_spellings())
def test_a_spelling_passes_each_check(check: SpellingCheck, rule: Rule, spelling: Spelling) -> None:
    assert not [each for each in check.problems(checked(rule), spelling) if each]


@pytest.mark.nightly
@every_spelling
@pytest.mark.parametrize("check", of_spellings())
def test_every_spelling_passes_each_check_with_more_numbers(
    check: SpellingCheck, rule: Rule, spelling: Spelling
) -> None:
    found = check.problems(checked(rule, trials=20), spelling)
    assert not [each for each in found if each]


@every_rule
@pytest.mark.parametrize("check", of_rules())
def test_a_rule_passes_each_check(check: RuleCheck, rule: Rule) -> None:
    assert not [each for each in check.problems(checked(rule)) if each]


@every_spelling
@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_sides_are_equal_as_numbers(rule: Rule, spelling: Spelling, data: st.DataObject) -> None:
    holes = holes_of(rule, spelling, data.draw(sizes_of(rule)))
    lhs = side_or_none(rule, spelling.lhs, holes)
    assume(lhs is not None)
    rhs = side_of(rule, rule.rhs, holes)
    operands = data.draw(operands_of(rule, holes))
    with np.errstate(all="ignore"):  # a division by zero is one on both sides
        assert_equal_up_to_rounding(lhs, rhs, operands)


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
