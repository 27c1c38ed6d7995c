"""A sample of the typing errors that tests/passes/rule_mutants.py makes; the whole list nightly."""

from collections import Counter

import numpy as np
import pytest

from tests.passes.module_mutants import mutants_of
from tests.passes.rule_mutants import UNNOTICED, Verdict, files, judge, tasks
from tests.passes.surviving_mutants import is_explained

_SAMPLE = 1
"""Mutants of each file that the default run looks at."""


def sample(name: str) -> list[Verdict]:
    work = tasks([name])
    random = np.random.default_rng(len(work))
    chosen = random.choice(len(work), min(_SAMPLE, len(work)), replace=False)
    return [judge(work[i]) for i in chosen]


def unexplained(verdicts: list[Verdict]) -> list[Verdict]:
    return [each for each in verdicts if each.caught == "survived" and not is_explained(each)]


@pytest.mark.parametrize("name", files())
def test_a_typing_error_is_noticed(name: str) -> None:
    assert unexplained(sample(name)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", files())
def test_every_typing_error_is_noticed(name: str) -> None:
    verdicts = [judge(task) for task in tasks([name])]
    assert unexplained(verdicts) == []
    caught = Counter(each.caught not in UNNOTICED for each in verdicts)
    assert caught[True] > 0


def test_a_module_is_changed_one_token_at_a_time() -> None:
    source = '''
def side(b, h, x, y):
    """Say x."""
    return b.add(Subtract(), x, b.add(Slice(h.last, 0), y))

RULE = Rule(operands={"x": "bf16: * 2*k n"}, when=(A, B))
'''
    changed = [each.what.partition(": ")[2] for each in mutants_of(source, [2])]
    assert changed == [
        "b.add(Subtract(), x, b.add(Slice(h.last, 0), y)) -> "
        "b.add(Subtract(), b.add(Slice(h.last, 0), y), x)",
        "x -> y",
        "Subtract -> Add",
        "Subtract -> Multiply",
        "Subtract -> Divide",
        "Slice(h.last, 0) -> Slice(0, h.last)",
        "y -> x",
        "0 -> 1",
        "0 -> -1",
        "'bf16: * 2*k n' -> 'bf16: * n 2*k'",
        "'bf16: * 2*k n' -> 'bf16: 2*k n'",
        "'bf16: * 2*k n' -> 'bf16: * zz n'",
        "'bf16: * 2*k n' -> 'bf16: * 1 n'",
        "'bf16: * 2*k n' -> 'bf16: * 2*k zz'",
        "'bf16: * 2*k n' -> 'bf16: * 2*k 1'",
        "'bf16: * 2*k n' -> '* 2*k n'",
        "(A, B) -> (B,)",
        "(A, B) -> (A,)",
    ]
