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
from ascendfx.passes.proof.check_examples import (
    check_ends,
    check_example,
    check_fires,
    check_necessity,
)
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
        hint: What to do about them.
        after: Checks that say all there is to say of a spelling if they fail.
    """

    name: str
    problems: Callable[[Checked, Spelling], Iterable[str]]
    hint: str
    after: frozenset[str] = frozenset({"types"})


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """A check of a rule as a whole, with its examples.

    Attributes:
        name: For tests and tables.
        problems: What is wrong with the rule; empty texts are nothing.
        hint: What to do about them.
        after: As in `SpellingCheck`, for any spelling.
    """

    name: str
    problems: Callable[[Checked], Iterable[str]]
    hint: str
    after: frozenset[str] = frozenset({"types"})


def _declaration(checked: Checked) -> Iterator[str]:
    if checked.rule.fidelity is Fidelity.LOSSY:
        yield "its fidelity is lossy: a rule gives equal numbers"
    yield from check_declaration(checked.rule)
    if not any(check_fields(checked.rule)):
        yield from check_values(checked.rule)


def _first_example(checked: Checked) -> Iterator[str]:
    if "" not in checked.examples:
        yield "no example was given in which it applies"


def _example(checked: Checked) -> Iterator[str]:
    if example := checked.examples.get(""):
        yield check_example(checked.rule, example)


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

_SIDES = (
    "correct a side, or exclude these values with a precondition (when=); what it ensures of an "
    "operand is declared in values= or below="
)
_SITES = "exclude it with a precondition (when=), or capture in a hole what differs"
_ENDLESS = (
    "set cyclic=True, so that the rule is tried in one round only, or write a right side that the "
    "left side does not match"
)
_FIRST_EXAMPLE = 'pass examples={"": a Program in which it fires}'

CHECKS: tuple[RuleCheck | SpellingCheck, ...] = (
    RuleCheck(
        "declaration",
        _declaration,
        "help(ascendfx.rules.Rule) says what each field is",
        after=frozenset(),
    ),
    RuleCheck(
        "names of examples",
        _examples,
        f"{_FIRST_EXAMPLE}; all other names are the `blocks` of preconditions",
        after=frozenset(),
    ),
    SpellingCheck(
        "types",
        lambda c, s: (check_types(c.rule, s),),
        "both sides have the same types for all sizes: correct a side, or operands=",
        after=frozenset(),
    ),
    SpellingCheck(
        "numbers",
        lambda c, s: (check_numbers(c.rule, s, trials=c.trials, seed=c.seed),),
        _SIDES,
    ),
    SpellingCheck(
        "infinities",
        lambda c, s: (check_infinities(c.rule, s, trials=c.trials, seed=c.seed),),
        _SIDES,
        after=frozenset({"types", "numbers"}),
    ),
    SpellingCheck(
        "integers",
        lambda c, s: (check_integers(c.rule, s, trials=c.trials, seed=c.seed),),
        _SIDES,
        after=frozenset({"types", "numbers"}),
    ),
    SpellingCheck("identity", lambda c, s: check_identity(c.rule, s), _SIDES),
    SpellingCheck(
        "large sizes",
        lambda c, s: (check_large_sizes(c.rule, s, seed=c.seed),),
        _SIDES,
        after=frozenset({"types", "numbers", "identity"}),
    ),
    SpellingCheck(
        "fires",
        lambda c, s: (check_fires(c.rule, s),),
        "a left side finds what it builds itself: correct it, or operands= and holes=",
    ),
    SpellingCheck(
        "ends",
        lambda c, s: (check_ends(c.rule, s),),
        _ENDLESS,
        after=frozenset({"types", "fires"}),
    ),
    SpellingCheck(
        "fidelity",
        lambda c, s: (check_fidelity(c.rule, s, trials=c.trials, seed=c.seed),),
        "sides that only round differently are Fidelity.REAL, not BITWISE; else correct a side",
        after=_EQUAL,
    ),
    SpellingCheck(
        "roundings",
        lambda c, s: (check_lost_roundings(c.rule, s, trials=c.trials, seed=c.seed),),
        "keep the casts on the right side: they are there to round",
        after=_EQUAL,
    ),
    SpellingCheck(
        "decisions",
        lambda c, s: (check_decisions(c.rule, s, trials=c.trials, seed=c.seed),),
        _SIDES,
        after=_EQUAL,
    ),
    SpellingCheck(
        "growth",
        lambda c, s: (check_growth(c.rule, s, seed=c.seed),),
        "write a right side that rounds less, or narrow values=, or allow it: "
        "growth=Growth(factor, reason)",
        after=_EQUAL,
    ),
    SpellingCheck(
        "perturbed sites",
        lambda c, s: (check_perturbed_sites(c.rule, s, seed=c.seed),),
        _SITES,
        after=_EQUAL | {"ends"},
    ),
    RuleCheck("an example", _first_example, _FIRST_EXAMPLE),
    RuleCheck(
        "example",
        _example,
        "the example is a Program in which the rule fires: correct one of both",
        after=frozenset({"types", "ends"}),
    ),
    RuleCheck(
        "changed example",
        _changed_example,
        _SITES,
        after=frozenset({"types", "ends", "example"}),
    ),
    RuleCheck(
        "necessity",
        _necessity,
        'pass examples={"<blocks>": a Program that this precondition alone forbids}, or leave the '
        "precondition out",
        after=frozenset({"types", "ends"}),
    ),
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
    problems = tuple(_problems(Checked(rule, examples or {}, trials, seed)))
    if problems:
        raise GraphError(
            code="rule-not-proved",
            reason=f"{rule.name}: {problems[0].text}",
            notes=tuple(each.text for each in problems[1:]),
            hint=problems[0].hint,
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
    for problem in _problems(Checked(rule, examples, trials, seed)):
        yield problem.text


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is wrong, and what to do about it."""

    text: str
    hint: str


def _problems(checked: Checked) -> Iterator[_Problem]:
    rule = checked.rule
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
                for problem in _found(rule, check, partial(check.problems, checked, spelling)):
                    wrong.add(check.name)
                    yield _Problem(where + problem.text, problem.hint)
        failed |= wrong
    yield from _of_rule(checked, last, failed)


def _found(
    rule: Rule, check: RuleCheck | SpellingCheck, problems: Callable[[], Iterable[str]]
) -> Iterator[_Problem]:
    """Yield the problems of a check; what the code of a rule raises is one of them."""
    try:
        for text in filter(None, problems()):
            yield _Problem(text, check.hint)
    except Exception as error:  # noqa: BLE001  # whatever a rule raises is told, not passed on
        if isinstance(error, GraphError) and error.code == "rules-never-end":
            text = f"it matches its own result again and again: {error.reason}"
            yield _Problem(text, _ENDLESS)
            return
        shown = f"its code fails in the check `{check.name}`: {shown_failure(rule, error)}"
        yield _Problem(shown, "correct the code of the rule")


def _of_rule(checked: Checked, checks: Iterable[RuleCheck], failed: set[str]) -> Iterator[_Problem]:
    for check in checks:
        if not check.after & failed:
            for problem in _found(checked.rule, check, partial(check.problems, checked)):
                failed.add(check.name)
                yield problem
