"""Rules for any program keep what a whole model computes, wherever they apply in it."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RAISING, RULES, SPLITTING
from ascendfx.passes.run_on_tokens import logits_on_tokens
from ascendfx.runtime.presets import DECODE, TO_SERVING
from tests.passes.rules_that_fire import ALONE, IN_ORDER

_CAPTURED = Path(__file__).parent / "programs" / "captured"
_PLAIN = _CAPTURED / "v3yarn_f32.ir"
_TOKENS = (3, 1, 4, 1, 5)
_GENERAL = tuple(rule for rule in RULES if rule not in RAISING + SPLITTING)


@cache
def form(name: str) -> Program:
    """Return a small DeepSeek-V3 as captured, in serving form, or absorbed."""
    plain = parse_program(_PLAIN.read_text(encoding="utf-8"), file=_PLAIN.name)
    passes = {"captured": (), "serving": TO_SERVING, "decode": (*TO_SERVING, *DECODE)}
    return run_pipeline(plain, passes[name])[0]


@cache
def expected(name: str) -> Array:
    return logits(form(name))


def logits(program: Program) -> Array:
    return logits_on_tokens(program, random_weights(form("captured"), seed=0), _TOKENS)


def applied(rule: Rule, name: str) -> Program | None:
    """Return a form after a rule, or None where it does not apply."""
    program = ApplyRules((rule,)).run(form(name)).program
    return None if program is form(name) else program


def in_order(path: Path) -> set[str]:
    """Return the rules that the fixed order applies to a captured model."""
    plain = parse_program(path.read_text(encoding="utf-8"), file=path.name)
    _, runs = run_pipeline(plain, (*TO_SERVING, *DECODE))
    return {name for run in runs for name in run.statistics} & {rule.name for rule in RULES}


def test_these_rules_make_up_the_fixed_order() -> None:
    assert set().union(*map(in_order, _CAPTURED.glob("*.ir"))) == IN_ORDER


@pytest.mark.parametrize("name", ALONE)
def test_a_rule_alone_keeps_the_logits(name: str) -> None:
    changed = {rule.name: after for rule in _GENERAL if (after := applied(rule, name))}
    assert changed.keys() == ALONE[name]
    for rule, after in changed.items():
        gap = np.abs(logits(after) - expected(name)).max()
        # Two layers of float64 sums of at most 64 terms of the size of the result.
        assert gap <= 64 * 2e-15 * np.abs(expected(name)).max(), f"{rule}: {gap}"
