"""A pass written down is the pass that comes back: rules by name, and no other rule instead."""

import json
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.describe_pass import PassForm, describe_pass, restore_pass
from ascendfx.passes.registry import PASSES
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RULES


def written(rewrite: ApplyRules) -> list[dict[str, Any]]:
    """Return what stands in a file for the rules."""
    return json.loads(json.dumps(dict(describe_pass(rewrite).parameters)))["rules"]


def restored(rules: list[dict[str, Any]]) -> tuple[Rule, ...]:
    parameters = {"rules": rules, "max_rounds": 100}
    made = restore_pass(
        PassForm("apply-rules", "ascendfx.passes.apply_rules:ApplyRules", parameters)
    )
    assert isinstance(made, ApplyRules)
    return made.rules


def test_library_rules_are_written_by_name_and_read_again_as_the_same_objects() -> None:
    rules = written(ApplyRules(RULES))
    assert rules == [{"rule": f"ascendfx.passes.rules:{r.name}", "name": r.name} for r in RULES]
    assert all(one is other for one, other in zip(restored(rules), RULES, strict=True))


@pytest.mark.parametrize("rewrite", PASSES.values(), ids=PASSES)
def test_every_pass_with_default_parameters_round_trips(rewrite: Any) -> None:
    assert restore_pass(describe_pass(rewrite)) == rewrite


def own_rule(name: str) -> Rule:
    """Return a rule of a user, whose right side has its home in this module."""
    return replace(PASSES["swiglu"].rules[0], name=name, rhs=lambda b, h, *values: values[0])  # pyright: ignore[reportAttributeAccessIssue]


MINE = (own_rule("first"), own_rule("second"))


def test_a_rule_of_a_user_comes_back_from_its_module() -> None:
    rules = written(ApplyRules(MINE))
    assert [each["rule"] for each in rules] == [f"{__name__}:MINE.0", f"{__name__}:MINE.1"]
    assert restored(rules) == MINE


def test_a_tuple_in_another_order_is_no_other_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = written(ApplyRules(MINE[:1]))
    monkeypatch.setattr(sys.modules[__name__], "MINE", MINE[::-1])
    with pytest.raises(
        GraphError,
        match=r"error\[other-rule\]: .*MINE.0` is the rule `second` here, and was `first`",
    ):
        restored(rules)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"rule": "ascendfx.passes.rules:swiglu", "name": "rms-norm"}, "other-rule"),
        ({"rule": "ascendfx.passes.rules.swiglu:RULE", "name": "rms-norm"}, "other-rule"),
        ({"rule": "ascendfx.passes.rules.swiglu:RULE"}, "other-rule"),
        ({"rule": "ascendfx.passes.rules:no-such-rule", "name": "x"}, "pass-not-importable"),
        ({"rule": "no_such_module:RULE", "name": "x"}, "pass-not-importable"),
        ({"rule": "ascendfx.passes.rules:RULES", "name": "x"}, "pass-not-importable"),
    ],
)
def test_a_path_to_something_else_is_refused(rule: dict[str, Any], code: str) -> None:
    with pytest.raises(GraphError, match=rf"error\[{code}\]"):
        restored([rule])


def test_a_rule_of_a_path_before_this_form_is_still_found() -> None:
    rule = {"rule": "ascendfx.passes.rules.swiglu:RULE", "name": "swiglu"}
    assert restored([rule]) == PASSES["swiglu"].rules  # pyright: ignore[reportAttributeAccessIssue]


def test_a_module_that_went_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ModuleType("a_home_of_rules")
    home.RULE = own_rule("gone")  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, home.__name__, home)
    path = {"rule": f"{home.__name__}:RULE", "name": "gone"}
    assert restored([path]) == (home.RULE,)  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.delitem(sys.modules, home.__name__)
    with pytest.raises(GraphError, match=r"error\[pass-not-importable\]: `a_home_of_rules:RULE`"):
        restored([path])
