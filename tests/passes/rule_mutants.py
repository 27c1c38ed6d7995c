"""Is every typing error in a rule noticed? Each single-token mutant of the library is checked.

python -m tests.passes.rule_mutants [FILE ...]      prints a table: file, mutants, caught

A mutant changes one token of a right side, an axis of an operand, or a precondition. It is caught
if the module no longer loads, or if for some rule of it a check of `check_rule` fails, or what
becomes of its example differs from what became of it before. Everything else is listed.

Some mutants are no errors. One is *equivalent* if both sides are the same graphs as before, or if
the left side is well typed only where the changed axis or format is what it was. One is *proved* if
it changes sides or axes, not preconditions, and passes every proof: it is another right rule, for
example one that is more general, or one whose sides exchange two names. One *survived* if it
changes a precondition and no check and no file of tests/filecheck shows it.
"""

import argparse
import functools
import importlib
import multiprocessing
import signal
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.check_rule import CHECKS, Checked, RuleCheck, SpellingCheck
from ascendfx.passes.rule import Rule, parse_operand
from ascendfx.passes.rule_sides import (
    FREE,
    holes_of,
    letters_of,
    operand_types,
    random_sizes,
    side_or_none,
    unequal_sizes,
)
from tests.passes.module_mutants import FRESH, Mutant, mutants_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "passes" / "rules"
EXAMPLES = ROOT / "tests" / "filecheck"
_CRASHES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    GraphError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a changed rule may raise when it is loaded or used: then nobody can use it either."""
UNNOTICED = ("equivalent", "proved", "survived")
"""Verdicts other than what caught a mutant."""
_SLOW = ("numbers", "changed example", "perturbed sites", "identity", "fidelity", "growth")
"""Checks that come after all others, in this order: a mutant is caught by the fastest."""
_SPELLINGS = 3
_SIZES = 400
_SECONDS = 100
"""Of computing: a machine that does other things, too, gives the same verdict."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: ``caught`` says by what, or is ``equivalent`` or ``survived``."""

    file: str
    what: str
    caught: str


@functools.cache
def example(name: str) -> Program:
    return parse_program((EXAMPLES / f"{name}.ir").read_text(encoding="utf-8"), file=name)


def load(name: str, source: str) -> dict[str, Rule]:
    """Run the text of a module of rules and return them by name."""
    module = types.ModuleType(f"ascendfx.passes.rules.{name}_mutant")
    sys.modules[module.__name__] = module
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)  # noqa: S102
    rules: dict[str, Rule] = {}
    for value in module.__dict__.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Rule):
                rules[each.name] = each
    return rules


def changed_lines(name: str) -> list[int]:
    """Return the first lines of the functions behind right sides and preconditions."""
    module = importlib.import_module(f"ascendfx.passes.rules.{name}")
    lines: set[int] = set()
    for rule in load(name, Path(str(module.__file__)).read_text(encoding="utf-8")).values():
        roots = (rule.rhs, rule.derive, *(condition.holds for condition in rule.when))
        for function in roots:
            lines |= {each.__code__.co_firstlineno for each in reached(function)}
    return sorted(lines)


def reached(function: Callable[..., Any]) -> list[types.FunctionType]:
    """Return a function of a mutant module and those of the same module that it uses."""
    found: list[types.FunctionType] = []
    pending: list[Any] = [function]
    while pending:
        each = pending.pop()
        if isinstance(each, functools.partial):
            pending += [each.func, *each.args, *each.keywords.values()]
        if not isinstance(each, types.FunctionType) or each in found:
            continue
        if each.__module__.endswith("_mutant"):
            found.append(each)
            closure = [cell.cell_contents for cell in each.__closure__ or ()]
            pending += [*closure, *(each.__globals__.get(n) for n in names_of(each.__code__))]
    return found


def names_of(code: types.CodeType) -> list[str]:
    inner = [n for c in code.co_consts if isinstance(c, types.CodeType) for n in names_of(c)]
    return [*code.co_names, *inner]


def fingerprint(rule: Rule) -> str:
    """Return a text that is equal for rules that are built alike."""
    sides = (rule.rhs, *(each.lhs for each in rule.spellings))
    built = [codes_of(side) for side in sides]
    blocks = [each.blocks for each in rule.when]
    return repr((built, conditions_of(rule), dict(rule.operands), blocks))


def codes_of(function: Callable[..., Any]) -> list[object]:
    return [
        (f.__name__, f.__code__.co_code, constants(f.__code__), f.__code__.co_names)
        for f in reached(function)
    ]


def constants(code: types.CodeType) -> list[Any]:
    return [
        (c.co_code, constants(c), c.co_names) if isinstance(c, types.CodeType) else c
        for c in code.co_consts
    ]


def verdict(name: str, originals: dict[str, Rule], mutant: Mutant) -> Verdict:
    """Say what notices a mutant."""
    try:
        rules = load(name, mutant.source)
    except _CRASHES as error:
        return Verdict(name, mutant.what, f"load: {type(error).__name__}")
    if missing := originals.keys() - rules.keys():
        return Verdict(name, mutant.what, f"load: {sorted(missing)}")
    seen: set[str] = set()
    for key, rule in rules.items():
        if key not in originals or fingerprint(rule) == fingerprint(originals[key]):
            continue
        try:
            if forced(rule, originals[key]):
                seen.add("equivalent")
                continue
            found = next(noticed(rule, originals[key]), "") or unnoticed(rule, originals[key])
        except _CRASHES as error:
            found = f"crash: {type(error).__name__}"
        if found not in UNNOTICED:
            return Verdict(name, mutant.what, found)
        seen.add(found)
    return Verdict(name, mutant.what, max(seen, key=UNNOTICED.index, default="equivalent"))


def unnoticed(rule: Rule, original: Rule) -> str:
    """Say what a change means that no check notices."""
    if conditions_of(rule) != conditions_of(original):
        return "survived"
    return "equivalent" if builds_alike(rule, original) else "proved"


def conditions_of(rule: Rule) -> str:
    functions = (rule.derive, *(each.holds for each in rule.when))
    return repr([codes_of(function) for function in functions])


def forced(rule: Rule, original: Rule) -> bool:
    """Say whether a fresh axis letter is always equal to the axis it stands for.

    It is if the left side is not well typed otherwise: then the rule fires where it did before.
    """
    changed = [name for name in rule.operands if rule.operands[name] != original.operands[name]]
    if len(changed) != 1:
        return False
    if ":" not in rule.operands[changed[0]] and ":" in original.operands[changed[0]]:
        return format_forced(rule, original, changed[0])
    if FRESH not in letters_of(rule):
        return False
    letters = letters_of(rule)
    ours, theirs = (parse_operand(each.operands[changed[0]]).axes for each in (rule, original))
    (place,) = (i for i, axis in enumerate(ours) if str(axis) == FRESH)
    random = np.random.default_rng(0)
    for _ in range(_SIZES):
        numbers = {each: int(random.integers(1, 4)) for each in letters}
        known = {**dict.fromkeys(letters_of(original), 1), **numbers}
        if bind_size(theirs[place], known) == numbers[FRESH]:
            continue
        holes = holes_of(rule, rule.spellings[0], {**numbers, "lead": (2,)})
        if side_or_none(rule, rule.spellings[0].lhs, holes) is not None:
            return False
    return True


def format_forced(rule: Rule, original: Rule, name: str) -> bool:
    """Say whether the left side is well typed for one format of an operand only."""
    if rule.operands[name] != original.operands[name].partition(":")[2].strip():
        return False
    for spelling in rule.spellings[:_SPELLINGS]:
        holes = holes_of(rule, spelling, unequal_sizes(rule, spelling, (2,)))
        theirs = operand_types(original, holes)[name].dtype
        for dtype in set(DType) - {theirs}:
            if side_or_none(rule, spelling.lhs, {**holes, FREE: dtype}) is not None:
                return False
    return True


def noticed(rule: Rule, original: Rule) -> Iterator[str]:
    """Yield which check fails, the fast ones first."""
    by_name = {each.name: each for each in CHECKS}
    slow = [by_name[name] for name in _SLOW]
    yield from failed(rule, [each for each in CHECKS if each not in slow])
    if output(rule, rule.name) != output(original, rule.name):
        yield "filecheck"
    for path in sorted(EXAMPLES.glob(f"{rule.name}.*.ir")):
        if output(rule, path.stem) != output(original, path.stem):
            yield "refused example"
    yield from failed(rule, slow)


def failed(rule: Rule, checks: Iterable[RuleCheck | SpellingCheck]) -> Iterator[str]:
    """Yield the names of those checks that find something, with few of many spellings."""
    spread = np.linspace(0, len(rule.spellings) - 1, _SPELLINGS).astype(int)
    few = tuple(rule.spellings[i] for i in dict.fromkeys(spread.tolist()))
    examples = {each.blocks: example(f"{rule.name}.{each.blocks}") for each in rule.when}
    whole = Checked(rule, {"": example(rule.name), **examples}, trials=6)
    for check in checks:
        if isinstance(check, RuleCheck):
            found = any(check.problems(whole))
        else:
            part = replace(whole, rule=replace(rule, spellings=few))
            found = any(each for s in few for each in check.problems(part, s))
        if found:
            yield check.name


def output(rule: Rule, name: str) -> object:
    result = ApplyRules((rule,)).run(example(name))
    return result.program, result.remarks


def builds_alike(rule: Rule, original: Rule) -> bool:
    """Say whether both sides are the same graphs as before, for many sizes."""
    random = np.random.default_rng(0)
    for ours, theirs in zip(rule.spellings, original.spellings, strict=True):
        for _ in range(5):
            sizes = random_sizes(rule, random)
            for changed, before in ((ours.lhs, theirs.lhs), (rule.rhs, original.rhs)):
                if side_or_none(rule, changed, holes_of(rule, ours, sizes)) != side_or_none(
                    original, before, holes_of(original, theirs, sizes)
                ):
                    return False
    return rule.operands == original.operands


def judge(task: tuple[str, Mutant]) -> Verdict:
    """Return the verdict; a mutant that keeps the checks busy for minutes is noticed by that."""
    name, mutant = task
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return verdict(name, originals_of(name), mutant)
    except TimeoutError:
        return Verdict(name, mutant.what, "timeout")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _too_long(_number: int, _frame: object) -> None:
    raise TimeoutError


@functools.cache
def originals_of(name: str) -> dict[str, Rule]:
    return load(name, (FOLDER / f"{name}.py").read_text(encoding="utf-8"))


def files() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def tasks(names: list[str]) -> list[tuple[str, Mutant]]:
    """Return every mutant of the files, those with equal text once."""
    found: dict[str, tuple[str, Mutant]] = {}
    for name in names:
        source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        for mutant in mutants_of(source, changed_lines(name)):
            found.setdefault(mutant.source, (name, mutant))
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="files of passes/rules without .py; else all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--log", type=Path, help="write each verdict as it comes")
    options = parser.parse_args()
    work = tasks(options.files or files())
    with multiprocessing.Pool(options.jobs) as pool:
        verdicts: list[Verdict] = []
        for each in pool.imap_unordered(judge, work, chunksize=4):
            verdicts.append(each)
            if options.log:
                with options.log.open("a", encoding="utf-8") as log:
                    log.write(f"{each.file}\t{each.caught}\t{each.what}\n")
    sys.stdout.write("\n".join(table(verdicts)) + "\n")


def table(verdicts: list[Verdict]) -> list[str]:
    """Return one line per file, then every mutant that was not caught."""
    lines = [
        "| file | mutants | caught | equivalent | proved | survived |",
        "|---|---|---|---|---|---|",
    ]
    for name in (*sorted({each.file for each in verdicts}), "all"):
        own = [each for each in verdicts if name in (each.file, "all")]
        count = Counter(each.caught for each in own)
        rest = [count[each] for each in UNNOTICED]
        shown = [len(own), len(own) - sum(rest), *rest]
        lines.append(f"| `{name}` | {' | '.join(map(str, shown))} |")
    by = Counter(each.caught.partition(":")[0] for each in verdicts)
    lines.append("caught by: " + ", ".join(f"{what} {n}" for what, n in by.most_common()))
    rest = [each for each in verdicts if each.caught in UNNOTICED]
    return lines + sorted(f"{each.caught}: {each.file}: {each.what}" for each in rest)


if __name__ == "__main__":
    main()
