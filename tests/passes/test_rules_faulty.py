"""Faulty code and declarations of users end in one clear error, not in a traceback."""

import dataclasses
from typing import Any

import pytest

from ascendfx import rules
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.ops import Negate
from tests.passes.guarded_rule import GUARDED, RULE, program

NAN = float("nan")


def fails(*_: Any) -> Any:
    raise KeyError("key")


def refused(code: str, rule: Any = RULE, **options: Any) -> str:
    with pytest.raises(GraphError) as caught:
        rules.check(rule, **{"examples": {"": program()}, **options})
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"rhs": fails},
        {"holes": fails},
        {"derive": fails},
        {"rhs": lambda b, h, x, y: None},
        {"rhs": lambda b, h, x, y: 3},
        {"rhs": lambda b, h, x, y: [1]},
        {"rhs": lambda b, h, x: x},
        {"spellings": (rules.Spelling(lambda b, h, x, y: b.add(Negate(), x)),)},
        {"below": {"x": "unknown"}},
    ],
)
def test_code_that_fails_is_told(change: Any) -> None:
    refused("rule-not-proved", dataclasses.replace(RULE, **change))


def test_a_precondition_that_fails_is_told() -> None:
    when = (dataclasses.replace(GUARDED.when[0], holds=fails),)
    message = refused("rule-not-proved", dataclasses.replace(GUARDED, when=when))
    assert "its code fails in the check" in message
    assert "KeyError: it looks up `key`, which is not there at test_rules_faulty.py:" in message
    assert message.count("the operands are `x`, `y`, the axis letters `k`") > 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"rhs": lambda b, h, x, y: [x]}, "returns list, not a Value or a tuple of Values"),
        ({"rhs": lambda b, h, x, y: None}, "returns NoneType, not a Value or a tuple of Values"),
        ({"rhs": lambda b, h, x, y: (x, 3)}, "returns a tuple with int, not of Values"),
        (
            {"spellings": (rules.Spelling(lambda b, h, x, y: [b.add(Negate(), x)]),)},
            "returns list, not a Value or a tuple of Values",
        ),
        (
            {"rhs": lambda b, h, x: x},
            "its right side takes (b, h, x), but is called with (builder, holes, x, y)",
        ),
        ({"rhs": 3}, "its right side is int, not a function of (builder, holes, x, y)"),
        ({"below": {"x": "unknown"}}, "it looks up `unknown`, which is not there"),
        ({"holes": lambda sizes: {"z": sizes["q"]}}, "it looks up `q`, which is not there"),
    ],
)
def test_what_a_side_gets_wrong_is_said(change: Any, text: str) -> None:
    assert text in refused("rule-not-proved", dataclasses.replace(RULE, **change))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": ""}, "its name `` is not kebab-case"),
        ({"name": "My Rule"}, "its name `My Rule` is not kebab-case"),
        ({"operands": {"x": "* k+", "y": "* k"}}, "cannot be read: not a size: k+"),
        ({"minimum": {"z": 3}}, "it has a minimum of `z`, which is no axis of an operand"),
        ({"minimum": {"k": 0}}, "the minimum of `k` is 0, not one from 1 to 32"),
        ({"minimum": {"k": 10**7}}, "the minimum of `k` is 10000000, not one from 1 to 32"),
        ({"below": {"q": "k"}}, "it says what `q` stays below, which is no operand"),
        ({"values": {"x": rules.Values(NAN, 1.0, because="-")}}, "from nan to 1.0 are no range"),
        ({"values": {"x": rules.Values(5.0, -5.0, because="-")}}, "from 5.0 to -5.0 are no range"),
        ({"growth": rules.Growth(NAN, "-")}, "its growth of rounding errors is nan"),
        ({"spellings": RULE.spellings[0]}, "not a tuple of Spellings: spellings=(Spelling(...),)"),
        ({"spellings": (RULE.rhs,)}, "not a tuple of Spellings"),
        ({"when": GUARDED.when[0]}, "not a tuple of Preconditions: when=(Precondition(...),)"),
        ({"name": ["x"]}, "its `name` is list ['x'], not a text"),
        ({"fidelity": "real"}, "its `fidelity` is str 'real', not a Fidelity"),
        ({"operands": ("x", "y")}, "its `operands` is tuple ('x', 'y'), not a mapping from names"),
        ({"minimum": {"k": "2"}}, "not a mapping from names to integers"),
        ({"values": {"x": (0, 1)}}, "not a mapping from names to Values"),
        ({"holes": {}}, "its `holes` is dict {}, not a function"),
        ({"proof": rules.Proof}, "the class Proof, not a Proof"),
    ],
)
def test_a_declaration_is_looked_at_first(change: Any, text: str) -> None:
    wrong = dataclasses.replace(RULE, **change)
    assert text in refused("rule-not-proved", wrong)
    with pytest.raises(GraphError) as caught:
        rules.register(wrong, examples={"": program()})
    assert text in str(caught.value)


def test_the_line_of_the_user_is_named_not_that_of_ours() -> None:
    wrong = dataclasses.replace(RULE, rhs=lambda b, h, x, y: b.add(x))
    message = refused("rule-not-proved", wrong)
    assert " at test_rules_faulty.py:" in message


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rule": None}, "`rule` is NoneType None, not a Rule"),
        ({"examples": [1]}, "`examples` is list [1], not a mapping from names to Programs"),
        ({"examples": {"": 3}}, "not a mapping from names to Programs"),
        ({"seed": -1}, "`seed` is int -1, not an integer of at least 0"),
        ({"trials": 0}, "`trials` is int 0, not a positive integer"),
    ],
)
def test_arguments_are_looked_at(options: Any, text: str) -> None:
    assert text in refused("bad-argument", **options)


def test_nothing_is_registered_as_a_rule() -> None:
    nothing: Any = None
    with pytest.raises(GraphError, match="not a Rule"):
        rules.register(nothing, examples={})
