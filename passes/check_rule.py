"""Prove a rule before it may run: the checks of our own rules, for those that users write."""

from collections.abc import Iterator, Mapping

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.proof.check_examples import check_example, check_fires, check_necessity
from ascendfx.passes.proof.check_sides import (
    check_fidelity,
    check_growth,
    check_identity,
    check_numbers,
    check_types,
    check_values,
)
from ascendfx.passes.proof.wild_sites import check_changed_example, check_wild_sites
from ascendfx.passes.rule import Rule, Spelling


def check_rule(
    rule: Rule,
    *,
    examples: Mapping[str, Program] | None = None,
    trials: int = 20,
    seed: int = 0,
) -> None:
    """Return if every check holds; see `problems_of_rule` for what is checked.

    Args:
        rule: The rule.
        examples: A program in which the rule applies under ``""``, and for each precondition, by
            its ``blocks`` name, one in which that precondition alone forbids it.
        trials: Random sizes and tensors for each spelling.
        seed: Of the random numbers.

    Raises:
        GraphError: A check fails; all failures are in its notes.
    """
    problems = tuple(problems_of_rule(rule, examples or {}, trials=trials, seed=seed))
    if problems:
        raise GraphError(
            code="rule-not-proved",
            reason=f"{rule.name}: {problems[0]}",
            notes=problems[1:],
            hint="a rule that is not proved would change results without a message",
        )


def problems_of_rule(
    rule: Rule, examples: Mapping[str, Program], *, trials: int = 20, seed: int = 0
) -> Iterator[str]:
    """Yield what is wrong with a rule.

    For each spelling: the types of both sides, random numbers, the proof of the identity of the
    declared kind, the bits or the bound of the rounding in each format, the growth of the rounding
    error on the range of values, the match with itself, and left sides that differ in one detail.
    For the rule: it applies in its example and comes to an end, also with changed details of it,
    and each precondition is what forbids its own example.
    """
    yield from check_values(rule)
    if rule.fidelity is Fidelity.LOSSY:
        yield "its fidelity is lossy: a rule gives equal numbers"
    if not rule.spellings:
        yield "it has no left side"
    typed = True
    for i, spelling in enumerate(rule.spellings):
        where = f"spelling {i}: " if len(rule.spellings) > 1 else ""
        if problem := check_types(rule, spelling):
            typed = False
            yield where + problem
            continue
        for problem in _of_spelling(rule, spelling, trials, seed):
            yield where + problem
    if not typed:
        return
    problem = check_example(rule, examples.get(""))
    if problem:
        yield problem
    elif found := check_changed_example(rule, examples[""], seed=seed):
        yield found
    for condition in rule.when:
        yield from check_necessity(rule, condition, examples.get(condition.blocks))


def _of_spelling(rule: Rule, spelling: Spelling, trials: int, seed: int) -> Iterator[str]:
    wrong = False
    for problem in (
        check_numbers(rule, spelling, trials=trials, seed=seed),
        *check_identity(rule, spelling),
        check_fires(rule, spelling),
    ):
        wrong = wrong or bool(problem)
        if problem:
            yield problem
    if wrong:
        return  # what rounding does to sides that are not equal is of no interest
    yield from filter(
        None,
        (
            check_fidelity(rule, spelling, trials=trials, seed=seed),
            check_growth(rule, spelling, seed=seed),
            check_wild_sites(rule, spelling, seed=seed),
        ),
    )
