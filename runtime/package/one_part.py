"""A compiled model with some of its plans: prefill and decode may run in two processes."""

from collections.abc import Sequence
from dataclasses import replace

from ascendfx.codegen.ascendc.launch_plan import Place
from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.verification.stage_name import parse_stage
from ascendfx.runtime.arguments import wrong_type
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.model_hash import model_hash


def one_part(compiled: CompiledModel, plans: Sequence[str]) -> CompiledModel:
    """Return the plans of these names, their weights, and the hash of the whole.

    Raises:
        GraphError: There is no such plan, or none is asked for.
    """
    if isinstance(plans, str) or not isinstance(plans, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong_type("plans", plans, "a list of names of plans")
    unknown = [each for each in plans if each not in compiled.plans]
    if unknown or not plans:
        raise GraphError(
            "unknown-plan",
            f"no plan is called {unknown[0]!r}" if unknown else "no plan is asked for",
            hint=f"known: {', '.join(compiled.plans)}",
        )
    kept = {name: plan for name, plan in compiled.plans.items() if name in plans}
    names = {each.name for plan in kept.values() for each in plan.of_place(Place.WEIGHT)}
    return replace(
        compiled,
        config=replace(compiled.config, model=compiled.config.model or model_hash(compiled)),
        programs={name: compiled.programs[name] for name in kept},
        steps={name: compiled.steps[name] for name in kept},
        plans=kept,
        weights=tuple(each for each in compiled.weights if each.name in names),
        searches=tuple(each for each in compiled.searches if parse_stage(each.stage).plan in kept),
    )
