"""Change one detail of a spelling: the rule must refuse, or what it builds must still be equal."""

from pathlib import Path

import pytest

from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.registry import RAISE
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RAISING, RULES, SPLITTING
from tests.passes.near_misses import check

_EXAMPLES = Path(__file__).parents[1] / "filecheck"

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)


def example(rule: Rule) -> Program:
    path = _EXAMPLES / f"{rule.name}.ir"
    return parse_program(path.read_text(encoding="utf-8"), file=path.name)


@every_rule
def test_a_changed_detail_is_refused_or_kept(rule: Rule) -> None:
    ran, refused = check(example(rule), (ApplyRules((rule,)),))
    if rule in RAISING + SPLITTING:  # the others are so general that they take what they see
        assert ran >= 3
        assert refused >= ran // 4


@pytest.mark.parametrize("rule", RAISING + SPLITTING, ids=lambda r: r.name)
def test_the_whole_pipeline_keeps_a_changed_detail(rule: Rule) -> None:
    check(example(rule), RAISE)
