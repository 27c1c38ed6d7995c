"""The stages of draft layers: to serving form, and through the passes of each plan."""

from collections.abc import Sequence

from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.verification.stage_name import StageName
from ascendfx.runtime.rewriting import Rewriting


def draft_stage_names(plans: Sequence[str], layers: int) -> tuple[str, ...]:
    """Return the stages of ``layers`` distinct draft layers, in order."""
    return tuple(str(StageName(i, plan)) for plan in ("", *plans) for i in range(layers))


def serve_drafts(
    captured: Sequence[Program], rewriting: Rewriting, passes: Sequence[ProgramPass]
) -> tuple[Program, ...]:
    """Return the serving form of each captured draft layer.

    Raises:
        GraphError: A pass refuses one of them.
    """
    return tuple(
        rewriting.run(str(StageName(i, "")), program, passes)[0]
        for i, program in enumerate(captured)
    )


def drafts_of_plan(
    serving: Sequence[Program],
    rewriting: Rewriting,
    passes: Sequence[ProgramPass],
    *,
    plan: str,
    drafts: int,
) -> tuple[Program, ...]:
    """Return the draft program of each depth after the passes of a plan.

    With fewer layers than drafts they are used in turn: one layer for every depth.

    Raises:
        GraphError: A pass refuses one of them.
    """
    finished = [
        rewriting.run(str(StageName(i, plan)), program, passes)[0]
        for i, program in enumerate(serving)
    ]
    return tuple(finished[depth % len(finished)] for depth in range(drafts))
