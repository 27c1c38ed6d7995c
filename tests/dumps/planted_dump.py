"""Compile a captured program with a planted mistake and dump it."""

from pathlib import Path
from typing import Any

from ascendfx.codegen.ascendc.launch_plan import Capacities, LaunchPlan
from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import RAISE
from ascendfx.passes.rule import Rule
from ascendfx.runtime.dumps.dump_header import DumpHeader
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.presets import DECODE, TO_SERVING
from tests.dumps import planted
from tests.passes.captured_models import captured


def dump_with(bug: str, directory: Path) -> str:
    """Write the dump; return the name of the pass that has the mistake."""
    broken: Any = getattr(planted, bug)
    stages = {"serving": TO_SERVING, "decode": DECODE}
    if "llama" in planted.BUGS[bug].model:
        del stages["decode"]
    writer = DumpWriter(directory)
    writer.begin(DumpHeader(None, None, "ascend910b2", {}, "ordered", tuple(stages)))
    program = captured(planted.BUGS[bug].model)
    name = ""
    for stage, passes in stages.items():
        chosen, replaced = with_mistake(broken, passes)
        name = name or replaced
        writer.stage(stage, program)
        try:
            program, _ = run_pipeline(
                program, chosen, observe=lambda run, stage=stage: writer.passed(stage, run)
            )
        except GraphError:  # a later pass refuses what the broken one made; the dump remains
            break
        if stage == "decode":
            writer.plan(LaunchPlan(stage, (), (), (), 0, Capacities(1, 1, 1, 1, 1), ()))
    return name


def dump_with_pass(own: ProgramPass, directory: Path, model: str = "v3_halfrope") -> None:
    """Write the dump of the serving stage with a pass of a user behind the raising ones."""
    writer = DumpWriter(directory)
    writer.begin(DumpHeader(None, None, "ascend910b2", {}, "ordered", ("serving",)))
    program = captured(model)
    writer.stage("serving", program)
    run_pipeline(program, (*RAISE, own), observe=lambda run: writer.passed("serving", run))


def with_mistake(
    broken: Any, passes: tuple[ProgramPass, ...]
) -> tuple[tuple[ProgramPass, ...], str]:
    """Put the mistake into a pipeline, where the sound pass or rule stands."""
    if isinstance(broken, Rule):
        for i, each in enumerate(passes):
            rules: tuple[Rule, ...] = getattr(each, "rules", ())
            if any(rule.name == broken.name for rule in rules):
                mixed = tuple(broken if rule.name == broken.name else rule for rule in rules)
                return (*passes[:i], ApplyRules(mixed), *passes[i + 1 :]), "apply-rules"
        return passes, ""
    mine = broken()
    if all(each.name != mine.name for each in passes):
        return passes, ""
    return tuple(mine if each.name == mine.name else each for each in passes), mine.name
