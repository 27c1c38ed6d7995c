"""Find the pass of a dump that made the program compute something else."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.describe_pass import restore_pass
from ascendfx.passes.expose_hidden import CHAININGS, ExposeHidden
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.passes.verification.verify_pass import PassCheck, Rewritten
from ascendfx.passes.verification.verify_stages import StageVerifier
from ascendfx.runtime.dumps.read_dump import Dump, DumpedPass, DumpedStage
from ascendfx.runtime.progress import Progress, silent


@dataclass(frozen=True)
class Culprit:
    """The first pass whose program is not what it was given.

    Attributes:
        stage: Its stage.
        entry: The pass.
        before: The program that it was given.
        after: The program that it made.
        check: What differs, and where.
        rule: The rule of the pass without which nothing differs; empty if that is not known.
    """

    stage: DumpedStage
    entry: DumpedPass
    before: Program
    after: Program
    check: PassCheck
    rule: str = ""


@dataclass(frozen=True)
class Bisected:
    """What a comparison of all programs of a dump shows.

    Attributes:
        checks: One per pass, up to the one that was found.
        culprit: The first pass that breaks its fidelity; None if none does.
    """

    checks: tuple[PassCheck, ...]
    culprit: Culprit | None


def captured_program(dump: Dump) -> Program:
    """Return the program that the compilation began with.

    Raises:
        GraphError: The dump does not have it, or it is damaged.
    """
    stages = {stage.name: stage for stage in dump.stages}
    if "serving" not in stages:
        raise GraphError(
            "damaged-dump",
            f"{dump.directory} has no stage `serving`",
            hint="the compilation ended before its first pass; compile again",
        )
    return stages["serving"].program(0)


def captured_drafts(dump: Dump) -> tuple[Program, ...]:
    """Return the captured draft layers, as far as the compilation came to them.

    Raises:
        GraphError: One is damaged.
    """
    return tuple(
        stage.program(0)
        for stage in dump.stages
        if stage.at.layer is not None and not stage.at.plan
    )


def captured_of(dump: Dump, stage: DumpedStage) -> Program:
    """Return the captured program that a stage began with.

    Raises:
        GraphError: The dump does not have it, or it is damaged.
    """
    if stage.at.layer is None:
        return captured_program(dump)
    return captured_drafts(dump)[stage.at.layer]


def _chaining(dump: Dump) -> str:
    """Return which hidden state the draft layers of a dump read."""
    for stage in dump.stages:
        for entry in stage.passes:
            chaining = entry.form.parameters.get("chaining")
            if entry.name == ExposeHidden.name and chaining in CHAININGS:
                return chaining
    return CHAININGS[0]


def bisect_dump(
    dump: Dump,
    tensors: Mapping[str, Array],
    tokens: Array,
    *,
    allow_code: bool = False,
    progress: Progress = silent,
) -> Bisected:
    """Compare the program after each pass with the captured one, up to the first that breaks.

    Args:
        dump: The dump.
        tensors: Weights by key.
        tokens: Ids ``[texts, tokens]``.
        allow_code: Import the modules of passes of others; see `restore_pass`.
        progress: Told after each pass.

    Raises:
        GraphError: The dump is damaged, or the weights do not fit it; or no pass that it has breaks
            its fidelity, but the compilation did not come to its end.
    """
    progress("float64 truth", 0, 1)
    program, drafts = captured_program(dump), captured_drafts(dump)
    verifier = StageVerifier(program, drafts, tensors, tokens, _chaining(dump))
    progress("float64 truth", 1, 1)
    total = sum(len(stage.passes) for stage in dump.stages)
    for done, (stage, entry, before, after) in enumerate(_steps(dump)):
        progress("compare", done, total)
        found = Rewritten(entry.name, entry.fidelity, before, after)
        check = verifier.check(stage.name, found)
        if check.broken:
            progress("compare", total, total)
            checks = tuple(verifier.checks)
            culprit = Culprit(stage, entry, before, after, check)
            try:
                rewrite = restore_pass(entry.form, allow_code=allow_code)
            except GraphError:  # the caller was told by `lost_passes`
                return Bisected(checks, culprit)
            rule = _blamed_rule(culprit, rewrite, verifier)
            return Bisected(checks, replace(culprit, rule=rule))
    progress("compare", total, total)
    if unfinished := dump.unfinished:
        raise unfinished
    return Bisected(tuple(verifier.checks), None)


def _steps(dump: Dump) -> Iterator[tuple[DumpedStage, DumpedPass, Program, Program]]:
    for stage in dump.stages:
        before = stage.program(0)
        for entry in stage.passes:
            after = stage.program(entry.number)
            after = before if after == before else after
            yield stage, entry, before, after
            before = after


def _blamed_rule(culprit: Culprit, rewrite: ProgramPass, verifier: StageVerifier) -> str:
    """Return the rule without which the pass keeps its fidelity, or nothing.

    Rules build on each other: leaving out an innocent one can keep the guilty one from applying.
    So of those without which nothing breaks the one is named that others depend on least.
    """
    rules: tuple[Rule, ...] = getattr(rewrite, "rules", ())
    counts = culprit.entry.statistics
    results = {
        rule.name: ApplyRules(tuple(r for r in rules if r is not rule)).run(culprit.before)
        for rule in rules
        if isinstance(rule, Rule) and rule.name in counts  # pyright: ignore[reportUnnecessaryIsInstance]
    }

    def dependents(name: str) -> int:
        found = results[name].statistics
        return sum(found.get(n) != c for n, c in counts.items() if n != name)

    for name in sorted(results, key=dependents):
        entry = culprit.entry
        found = Rewritten(entry.name, entry.fidelity, culprit.before, results[name].program)
        if not verifier.check(culprit.stage.name, found).broken:
            return name
    return ""
