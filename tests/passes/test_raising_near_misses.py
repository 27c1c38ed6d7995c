"""Change one detail of a spelling: the rule must refuse, or what it builds must still be equal."""

from pathlib import Path

import numpy as np
import pytest

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.proof.graph_mutants import mutants
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.registry import RAISE
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RAISING, RULES, SPLITTING
from tests.strategies.rounding_bound import assert_equal_up_to_rounding

_EXAMPLES = Path(__file__).parents[1] / "filecheck"

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)


def example(rule: Rule) -> Program:
    path = _EXAMPLES / f"{rule.name}.ir"
    return parse_program(path.read_text(encoding="utf-8"), file=path.name)


def runs(graph: Graph, tensors: dict[str, Array]) -> bool:
    """Whether the mutant computes anything: an index may be out of range now."""
    try:
        with np.errstate(all="ignore"):
            return all(np.isfinite(y).all() for y in interpret(graph, tensors))
    except (IndexError, ValueError):
        return False


def check(program: Program, passes: tuple[ProgramPass, ...]) -> tuple[int, int]:
    """Return how many mutants still ran, and how many of them were left alone."""
    tensors = random_tensors(program, seed=0, ids=2)
    ran = refused = 0
    for what, mutant in mutants(program.main):
        if not runs(mutant, tensors):
            continue
        ran += 1
        after, _ = run_pipeline(Program((mutant,)), passes)
        refused += after.main == mutant
        try:
            with np.errstate(all="ignore"):
                assert_equal_up_to_rounding(mutant, after, tensors)
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error
    return ran, refused


@every_rule
def test_a_changed_detail_is_refused_or_kept(rule: Rule) -> None:
    ran, refused = check(example(rule), (ApplyRules((rule,)),))
    if rule in RAISING + SPLITTING:  # the others are so general that they take what they see
        assert ran >= 3
        assert refused >= ran // 4


@pytest.mark.parametrize("rule", RAISING + SPLITTING, ids=lambda r: r.name)
def test_the_whole_pipeline_keeps_a_changed_detail(rule: Rule) -> None:
    check(example(rule), RAISE)
