"""Prove a rule before it may run: the checks of our own rules, for those that users write."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.proof.check_decisions import check_decisions
from ascendfx.passes.proof.check_declaration import check_declaration
from ascendfx.passes.proof.check_examples import check_example, check_fires, check_necessity
from ascendfx.passes.proof.check_fields import check_fields
from ascendfx.passes.proof.check_sides import (
    check_fidelity,
    check_growth,
    check_identity,
    check_numbers,
    check_types,
    check_values,
)
from ascendfx.passes.proof.hard_values import (
    check_infinities,
    check_integers,
    check_large_sizes,
)
from ascendfx.passes.proof.lost_roundings import check_lost_roundings
from ascendfx.passes.proof.perturbed_sites import check_changed_example, check_perturbed_sites
from ascendfx.passes.proof.shown_failure import shown_failure
from ascendfx.passes.rule import Rule, Spelling


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check may look at.

    Attributes:
        rule: The rule.
        examples: A program in which the rule applies under ``""``, and for each precondition, by
            its ``blocks`` name, one in which that precondition alone forbids it.
        trials: Random sizes and tensors for each spelling.
        seed: Of the random numbers.
    """

    rule: Rule
    examples: Mapping[str, Program]
    trials: int = 20
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SpellingCheck:
    """A check of one left side with the right side.

    Attributes:
        name: For tests and tables.
        problems: What is wrong with a spelling; empty texts are nothing.
        after: Checks that say all there is to say of a spelling if they fail.
    """

    name: str
    problems: Callable[[Checked, Spelling], Iterable[str]]
    after: frozenset[str] = frozenset({"types"})


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """A check of a rule as a whole, with its examples.

    Attributes:
        name: For tests and tables.
        problems: What is wrong with the rule; empty texts are nothing.
        after: As in `SpellingCheck`, for any spelling.
    """

    name: str
    problems: Callable[[Checked], Iterable[str]]
    after: frozenset[str] = frozenset({"types"})


def _declaration(checked: Checked) -> Iterator[str]:
    if checked.rule.fidelity is Fidelity.LOSSY:
        yield "its fidelity is lossy: a rule gives equal numbers"
    yield from check_declaration(checked.rule)
    if not any(check_fields(checked.rule)):
        yield from check_values(checked.rule)


def _changed_example(checked: Checked) -> Iterator[str]:
    if example := checked.examples.get(""):
        yield check_changed_example(checked.rule, example, seed=checked.seed)


def _examples(checked: Checked) -> Iterator[str]:
    """Refuse examples that no check looks at."""
    if any(check_fields(checked.rule)):
        return
    blocks = [condition.blocks for condition in checked.rule.when]
    known = ", ".join(f"`{each}`" for each in blocks)
    for name in checked.examples:
        if name and name not in blocks:
            rest = f"its preconditions are {known}" if known else "it has no precondition"
            yield f"there is an example for `{name}`, which is no precondition: {rest}"


def _necessity(checked: Checked) -> Iterator[str]:
    for condition in checked.rule.when:
        yield from check_necessity(checked.rule, condition, checked.examples.get(condition.blocks))


_EQUAL = frozenset({"types", "numbers", "identity", "fires"})
"""What rounding does to sides that are not equal is of no interest."""

CHECKS: tuple[RuleCheck | SpellingCheck, ...] = (
    RuleCheck("declaration", _declaration, after=frozenset()),
    RuleCheck("names of examples", _examples, after=frozenset()),
    SpellingCheck("types", lambda c, s: (check_types(c.rule, s),), after=frozenset()),
    SpellingCheck(
        "numbers", lambda c, s: (check_numbers(c.rule, s, trials=c.trials, seed=c.seed),)
    ),
    SpellingCheck(
        "infinities",
        lambda c, s: (check_infinities(c.rule, s, trials=c.trials, seed=c.seed),),
        after=frozenset({"types", "numbers"}),
    ),
    SpellingCheck(
        "integers",
        lambda c, s: (check_integers(c.rule, s, trials=c.trials, seed=c.seed),),
        after=frozenset({"types", "numbers"}),
    ),
    SpellingCheck("identity", lambda c, s: check_identity(c.rule, s)),
    SpellingCheck(
        "large sizes",
        lambda c, s: (check_large_sizes(c.rule, s, seed=c.seed),),
        after=frozenset({"types", "numbers", "identity"}),
    ),
    SpellingCheck("fires", lambda c, s: (check_fires(c.rule, s),)),
    SpellingCheck(
        "fidelity",
        lambda c, s: (check_fidelity(c.rule, s, trials=c.trials, seed=c.seed),),
        after=_EQUAL,
    ),
    SpellingCheck(
        "roundings",
        lambda c, s: (check_lost_roundings(c.rule, s, trials=c.trials, seed=c.seed),),
        after=_EQUAL,
    ),
    SpellingCheck(
        "decisions",
        lambda c, s: (check_decisions(c.rule, s, trials=c.trials, seed=c.seed),),
        after=_EQUAL,
    ),
    SpellingCheck("growth", lambda c, s: (check_growth(c.rule, s, seed=c.seed),), after=_EQUAL),
    SpellingCheck(
        "perturbed sites",
        lambda c, s: (check_perturbed_sites(c.rule, s, seed=c.seed),),
        after=_EQUAL,
    ),
    RuleCheck("example", lambda c: (check_example(c.rule, c.examples.get("")),)),
    RuleCheck("changed example", _changed_example, after=frozenset({"types", "example"})),
    RuleCheck("necessity", _necessity),
)
"""Everything that is checked of a rule; ours and those of users are checked by all of it."""


def check_rule(
    rule: Rule,
    *,
    examples: Mapping[str, Program] | None = None,
    trials: int = 20,
    seed: int = 0,
) -> None:
    """Return if every check holds; see `CHECKS` for what is checked.

    Args:
        rule: The rule.
        examples: As in `Checked`.
        trials: As in `Checked`.
        seed: As in `Checked`.

    Raises:
        GraphError: A check fails; all failures are in its notes.
    """
    _require_arguments(rule, examples, trials, seed)
    problems = tuple(problems_of_rule(rule, examples or {}, trials=trials, seed=seed))
    if problems:
        raise GraphError(
            code="rule-not-proved",
            reason=f"{rule.name}: {problems[0]}",
            notes=problems[1:],
            hint="a rule that is not proved would change results without a message",
        )


def _require_arguments(rule: Any, examples: Any, trials: Any, seed: Any) -> None:
    wanted = (
        ("rule", rule, isinstance(rule, Rule), "a Rule"),
        ("examples", examples, _are_programs(examples), "a mapping from names to Programs"),
        ("trials", trials, isinstance(trials, int) and trials > 0, "a positive integer"),
        ("seed", seed, isinstance(seed, int) and seed >= 0, "an integer of at least 0"),
    )
    for name, value, fits, what in wanted:
        if not fits:
            raise GraphError(
                "bad-argument",
                f"`{name}` is {type(value).__name__} {value!r:.80}, not {what}",
                hint=f"pass {what}",
            )


def _are_programs(examples: Any) -> bool:
    if not isinstance(examples, Mapping):
        return examples is None
    programs = cast("Mapping[Any, Any]", examples).values()
    return all(isinstance(each, Program) for each in programs)


def problems_of_rule(
    rule: Rule, examples: Mapping[str, Program], *, trials: int = 20, seed: int = 0
) -> Iterator[str]:
    """Yield what `CHECKS` find in a rule: the left sides one after the other, then its examples."""
    checked = Checked(rule, examples, trials, seed)
    failed: set[str] = set()
    first = [each for each in CHECKS if isinstance(each, RuleCheck) and not each.after]
    last = [each for each in CHECKS if isinstance(each, RuleCheck) and each.after]
    yield from _of_rule(checked, first, failed)
    if tuple(check_declaration(rule)):
        return
    for i, spelling in enumerate(rule.spellings):
        where = f"spelling {i}: " if len(rule.spellings) > 1 else ""
        wrong: set[str] = set()
        for check in CHECKS:
            if isinstance(check, SpellingCheck) and not check.after & wrong:
                for problem in _found(rule, check.name, partial(check.problems, checked, spelling)):
                    wrong.add(check.name)
                    yield where + problem
        failed |= wrong
    yield from _of_rule(checked, last, failed)


def _found(rule: Rule, name: str, problems: Callable[[], Iterable[str]]) -> Iterator[str]:
    """Yield the problems of a check; what the code of a rule raises is one of them."""
    try:
        yield from filter(None, problems())
    except Exception as error:  # noqa: BLE001  # whatever a rule raises is told, not passed on
        yield f"its code fails in the check `{name}`: {shown_failure(rule, error)}"


def _of_rule(checked: Checked, checks: Iterable[RuleCheck], failed: set[str]) -> Iterator[str]:
    for check in checks:
        if not check.after & failed:
            for problem in _found(checked.rule, check.name, partial(check.problems, checked)):
                failed.add(check.name)
                yield problem
