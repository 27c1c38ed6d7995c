"""Every rule is proved twice, shown to fire, and refused when it is wrong."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascendfx.ir.interpret import interpret
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.proof.check_examples import check_example, check_necessity
from ascendfx.passes.proof.check_sides import (
    check_fidelity,
    check_growth,
    check_identity,
    check_types,
    check_values,
)
from ascendfx.passes.proof.wild_sites import check_changed_example, check_wild_sites
from ascendfx.passes.rule import Precondition, Rule, Spelling
from ascendfx.passes.rule_sides import holes_of, side_of, side_or_none, unequal_sizes
from ascendfx.passes.rules import RULES
from tests.strategies.program_tensors import random_tensors
from tests.strategies.rounding_bound import assert_equal_up_to_rounding
from tests.strategies.rule_sides import operands_of, sizes_of

_EXAMPLES = Path(__file__).parents[1] / "filecheck"

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
_MANY = 12
"""Spellings of a rule beyond which the default run proves some; the nightly run proves all."""


def some_spellings(*, nightly: bool) -> list[Any]:
    return [
        pytest.param(rule, spelling, id=f"{rule.name}-{i}")
        for rule in RULES
        for i, spelling in enumerate(rule.spellings)
        if (len(rule.spellings) > _MANY and i % (len(rule.spellings) // 5) > 0) == nightly
    ]


each_spelling = pytest.mark.parametrize(("rule", "spelling"), some_spellings(nightly=False))
other_spellings = pytest.mark.parametrize(("rule", "spelling"), some_spellings(nightly=True))
every_spelling = pytest.mark.parametrize(
    ("rule", "spelling"),
    [(rule, spelling) for rule in RULES for spelling in rule.spellings],
    ids=lambda each: each.name if isinstance(each, Rule) else None,
)


def example(name: str) -> Program:
    return parse_program((_EXAMPLES / f"{name}.ir").read_text(encoding="utf-8"), file=name)


def apply(rule: Rule, program: Program) -> Program:
    return ApplyRules((rule,)).run(program).program


@each_spelling
def test_the_identity_is_proved_for_all_values(rule: Rule, spelling: Spelling) -> None:
    assert not list(check_identity(rule, spelling))


@pytest.mark.nightly
@other_spellings
def test_the_identity_is_proved_for_every_spelling(rule: Rule, spelling: Spelling) -> None:
    assert not list(check_identity(rule, spelling))


@each_spelling
def test_rounding_keeps_the_declared_fidelity(rule: Rule, spelling: Spelling) -> None:
    assert not check_fidelity(rule, spelling, trials=9, seed=0)


@each_spelling
def test_rounding_errors_do_not_grow(rule: Rule, spelling: Spelling) -> None:
    assert not check_growth(rule, spelling, seed=0)


@each_spelling
def test_it_is_right_wherever_it_fires(rule: Rule, spelling: Spelling) -> None:
    assert not check_wild_sites(rule, spelling, seed=0)


@every_rule
def test_it_is_right_in_its_example_with_a_changed_detail(rule: Rule) -> None:
    assert not check_changed_example(rule, example(rule.name), seed=0)


@every_rule
def test_ranges_of_values_have_a_reason(rule: Rule) -> None:
    assert not list(check_values(rule))


@every_spelling
@settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much])
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
def test_sides_have_equal_types_for_unequal_sizes(rule: Rule, spelling: Spelling) -> None:
    assert not check_types(rule, spelling)


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
    assert not list(check_necessity(rule, condition, program))


@every_rule
def test_it_applies_in_its_example_and_comes_to_an_end(rule: Rule) -> None:
    assert not check_example(rule, example(rule.name))


def test_bitwise_rules_give_the_same_bits() -> None:
    for rule in RULES:
        if rule.fidelity is Fidelity.BITWISE:
            before = example(rule.name)
            tensors = random_tensors(before, seed=1, ids=2)
            results = zip(
                interpret(before, tensors), interpret(apply(rule, before), tensors), strict=True
            )
            assert all(np.array_equal(a, c) for a, c in results)
