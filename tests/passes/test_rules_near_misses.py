"""What looks like the left side of a rule and is not, is left as it is."""

from pathlib import Path

import pytest

from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.registry import PASSES
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RAISING, RULES, SPLITTING

_EXAMPLES = Path(__file__).parents[1] / "filecheck"
_GENERAL = tuple(rule for rule in RULES if rule not in RAISING + SPLITTING)
"""The others have `.ir` files for spellings, too; see test_raising_near_misses.py."""
AT_THE_BORDER = frozenset(
    {
        "divide-by-power-of-two.minus-one",
        "divide-by-power-of-two.one",
        "join-summed-linears.three-axes",
        "narrow-before-slice.same-bytes",
        "norm-of-scaled.small-scale",
    }
)
"""Files that show what a precondition just allows."""
NEARLY_MATCHED = frozenset(
    {
        "absorb-into-output-projection",
        "absorb-into-query-projection",
        "cast-before-maximum",
        "compose-linears",
        "concat-before-cache-read",
        "delay-softmax-division",
        "dispatch-and-back",
        "divide-by-power-of-two",
        "fold-gain-into-weight",
        "gather-after-add",
        "gather-before-add",
        "hoist-row-scale-from-linear",
        "hoist-scale-from-concat",
        "hoist-scale-from-swiglu",
        "join-summed-linears",
        "mean-of-sum",
        "merge-gate-and-up",
        "merge-parallel-linears",
        "norm-of-scaled",
        "rotary-layout-into-weight",
        "rotary-layout-of-attention-1",
        "routing-weights-before-projection",
        "scale-into-ragged-attention-2",
        "scale-into-route",
        "sigmoid-of-exponential",
        "silu-of-sigmoid",
        "sink-channel-scale-into-weight",
        "slice-before-cache-read",
        "slice-of-linear",
        "slice-of-slice",
        "softmax-of-exponentials",
        "softmax-of-shifted",
        "softmax-of-shifted-by-maximum",
        "split-linear-of-concat",
        "split-projection-into-heads",
        "square-as-product",
        "weighted-sum-as-matmul",
        "widen-after-slice",
        "widen-before-add",
    }
)
"""Rules with files that no precondition refuses, but the pattern."""


def program(name: str) -> Program:
    return parse_program((_EXAMPLES / f"{name}.ir").read_text(encoding="utf-8"), file=name)


def other_files(rule: Rule) -> list[str]:
    """Return the files of a rule that belong to none of its preconditions."""
    known = {f"{rule.name}.{each.blocks}" for each in rule.when}
    stems = (path.stem for path in _EXAMPLES.glob(f"{rule.name}.*.ir"))
    return sorted(stem for stem in stems if stem not in known)


def near_misses(rule: Rule) -> list[str]:
    return [name for name in other_files(rule) if name not in AT_THE_BORDER]


@pytest.mark.parametrize(
    ("rule", "name"),
    [(rule, name) for rule in _GENERAL for name in near_misses(rule)],
    ids=lambda each: each.name if isinstance(each, Rule) else each,
)
def test_a_near_miss_is_left_as_it_is(rule: Rule, name: str) -> None:
    before = program(name)
    assert ApplyRules((rule,)).run(before).program is before


def test_what_is_just_allowed_fires() -> None:
    files = [(rule, name) for rule in _GENERAL for name in other_files(rule)]
    before = {name: program(name) for _, name in files}
    fired = {n for rule, n in files if ApplyRules((rule,)).run(before[n]).program is not before[n]}
    assert fired == AT_THE_BORDER


def test_every_file_belongs_to_a_pass_or_rule() -> None:
    owners = {path.stem.partition(".")[0] for path in _EXAMPLES.glob("*.ir")}
    assert owners == PASSES.keys()


def test_these_rules_have_near_misses() -> None:
    assert {rule.name for rule in _GENERAL if near_misses(rule)} == NEARLY_MATCHED
