"""A right rule of a user is registered once, and then usable as a pass."""

import dataclasses
from typing import Any

import pytest

from ascendfx import rules
from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.registered_rules import require_registered
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RULES
from tests.passes.guarded_rule import GUARDED, RULE, program

EXAMPLES = {"": program(), "integers": program("i64")}


def test_a_right_rule_is_known_after_its_check() -> None:
    rule = dataclasses.replace(GUARDED, name="registered-subtract")
    assert rules.register(rule, examples=EXAMPLES) is rule
    assert rules.register(rule, examples=EXAMPLES) is rule  # once more changes nothing
    assert [each for each in rules.registered() if each.name == rule.name] == [rule]
    assert require_registered([rule]) == (rule,)
    after = ApplyRules(require_registered([rule])).run(program()).program
    assert [node.op.mnemonic for node in after.main.nodes] == ["input", "subtract"]


def test_a_rule_that_was_not_checked_is_refused() -> None:
    rule = dataclasses.replace(RULE, name="unknown-subtract")
    with pytest.raises(GraphError) as caught:
        require_registered([rule])
    assert str(caught.value) == (
        "error[rule-not-registered]: rule `unknown-subtract` was not checked\n"
        "\n"
        "hint: call ascendfx.rules.register(rule, examples=...) first"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (RULE, f"`rules` is the rule `{RULE.name}`, not a sequence of Rules"),
        ("rms-norm", "it has str 'rms-norm'"),
        (("rms-norm",), "it has str 'rms-norm'"),
        (None, "it has NoneType None"),
        ([Rule], "the class Rule"),
    ],
)
def test_what_is_no_sequence_of_rules_is_refused(given: Any, text: str) -> None:
    with pytest.raises(GraphError) as caught:
        require_registered(given)
    assert caught.value.code == "bad-argument"
    assert text in caught.value.reason
    assert "rules=(rule,)" in (caught.value.hint or "")


def test_another_rule_of_the_same_name_is_refused() -> None:
    rules.register(dataclasses.replace(RULE, name="twice"), examples={"": program()})
    other = dataclasses.replace(RULE, name="twice", identity="another")
    with pytest.raises(GraphError) as caught:
        rules.register(other, examples={"": program()})
    assert str(caught.value).startswith("error[rule-name-taken]: another rule named `twice`")


def test_the_name_of_a_library_rule_is_refused() -> None:
    taken = dataclasses.replace(RULE, name=RULES[0].name)
    with pytest.raises(GraphError) as caught:
        rules.register(taken, examples={"": program()})
    assert str(caught.value) == (
        f"error[rule-name-taken]: a rule of the library is named `{taken.name}`\n"
        "\n"
        "hint: give the rule a name of its own"
    )


def test_a_pass_of_rules_is_as_faithful_as_the_worst_of_them() -> None:
    real = dataclasses.replace(RULE, fidelity=rules.Fidelity.REAL)
    assert ApplyRules((RULE,)).fidelity is rules.Fidelity.BITWISE
    assert ApplyRules((RULE, real)).fidelity is rules.Fidelity.REAL


def test_the_name_of_a_pass_is_refused() -> None:
    taken = dataclasses.replace(RULE, name="fold-weights")
    with pytest.raises(GraphError, match="a pass is named `fold-weights`"):
        rules.register(taken, examples={"": program()})
