"""The rules that fold transforms are proved as those of `ascendfx.passes.rules` are."""

import dataclasses

import pytest

from ascendfx.passes.check_rule import CHECKS, Checked, SpellingCheck, check_rule
from ascendfx.passes.proof.check_examples import check_example, check_necessity
from ascendfx.passes.proof.check_sides import check_identity, check_numbers, check_values
from ascendfx.passes.rule import Rule
from ascendfx.quant_passes.migration.rules import RULES
from ascendfx.quant_passes.migration.rules.rotation_around_norm import CANCEL, NORM
from tests.quant.migration.rule_programs import examples

_QUICK = ("types", "numbers", "identity", "fires", "fidelity")
"""Checks of the default run; the nightly run has all of them."""

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@every_rule
def test_a_rule_is_proved(rule: Rule) -> None:
    found = examples(rule)
    checked = Checked(rule, found, trials=4)
    for check in CHECKS:
        if isinstance(check, SpellingCheck) and check.name in _QUICK:
            assert not [each for each in check.problems(checked, rule.spellings[0]) if each]
    assert not check_example(rule, found[""])
    for condition in rule.when:
        assert not [*check_necessity(rule, condition, found[condition.blocks])]


@pytest.mark.nightly
@every_rule
def test_a_rule_passes_every_check(rule: Rule) -> None:
    check_rule(rule, examples=examples(rule), trials=9)


def test_a_matrix_that_is_no_rotation_is_not_enough() -> None:
    for rule in (NORM, CANCEL):
        anything = dataclasses.replace(rule, orthogonal={}, when=())
        assert check_numbers(anything, anything.spellings[0], trials=4, seed=0)
    assert [*check_identity(anything, anything.spellings[0])]


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"r": "no-such"}, "no precondition `no-such` makes sure that `r` is a rotation"),
        ({"x": "not-a-rotation"}, "it says that `x` is a rotation, which is no square operand"),
    ],
)
def test_a_rotation_is_a_square_operand_that_a_precondition_knows(
    declared: dict[str, str], why: str
) -> None:
    assert why in [*check_values(dataclasses.replace(CANCEL, orthogonal=declared))]
