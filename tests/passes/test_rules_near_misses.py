"""What looks like the left side of a rule and is not, is left as it is."""

from pathlib import Path

import pytest

from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RAISING, RULES, SPLITTING

_EXAMPLES = Path(__file__).parents[1] / "filecheck"
_GENERAL = tuple(rule for rule in RULES if rule not in RAISING + SPLITTING)
"""The others have `.ir` files for spellings, too; see test_raising_near_misses.py."""


def near_misses(rule: Rule) -> list[str]:
    """Return the files of a rule that belong to none of its preconditions."""
    known = {f"{rule.name}.{each.blocks}" for each in rule.when}
    stems = (path.stem for path in _EXAMPLES.glob(f"{rule.name}.*.ir"))
    return sorted(stem for stem in stems if stem not in known)


@pytest.mark.parametrize(
    ("rule", "name"),
    [(rule, name) for rule in _GENERAL for name in near_misses(rule)],
    ids=lambda each: each.name if isinstance(each, Rule) else each,
)
def test_a_near_miss_is_left_as_it_is(rule: Rule, name: str) -> None:
    program = parse_program((_EXAMPLES / f"{name}.ir").read_text(encoding="utf-8"), file=name)
    assert ApplyRules((rule,)).run(program).program is program


def test_there_are_enough_near_misses() -> None:
    assert sum(len(near_misses(rule)) for rule in _GENERAL) >= 35
