"""Lower the program of a stage to its plan: checks, dumps and progress beside it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ascendfx.codegen.ascendc.cost_model import cost_of_plan
from ascendfx.codegen.ascendc.launch_plan import ROW_START, LaunchPlan
from ascendfx.codegen.ascendc.lowering.lower_program import RESULTS, lower_program
from ascendfx.codegen.ascendc.target import Target
from ascendfx.codegen.ascendc.weight_spec import WeightSpec
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import KNOWN_TOKENS
from ascendfx.passes.remark import Remark
from ascendfx.passes.step_inputs import is_packed
from ascendfx.runtime.device_memory import check_arena
from ascendfx.runtime.dumps.plan_cost_record import plan_cost_record
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.near_misses import near_misses_noted
from ascendfx.runtime.progress import Progress


def results_of(program: Program) -> tuple[str, ...]:
    """Return names for what a step returns: tokens, logits, where packed rows start, own drafts."""
    if is_packed(program):
        return (*RESULTS, ROW_START)
    known = program.main.input_types.get(KNOWN_TOKENS)
    drafts = known.shape[1] if known else 0
    return (*RESULTS, *(f"draft_tokens.{depth}" for depth in range(bind_size(drafts, {}))))


@dataclass(frozen=True)
class Lowering:
    """How plans are made.

    Attributes:
        target: The chip.
        limits: Sizes of the plans.
        writer: Receives every plan, its kernels and what it costs; None: no dumps.
        progress: Told before and after each plan.
    """

    target: Target
    limits: Limits
    writer: DumpWriter | None
    progress: Progress

    def run(
        self, name: str, program: Program, remarks: Sequence[Remark]
    ) -> tuple[LaunchPlan, tuple[WeightSpec, ...]]:
        """Return the plan of a program, and the weights it reads.

        Args:
            name: ``decode`` or ``prefill``.
            program: Its last form.
            remarks: Near misses of the passes, for the message if an operation has no kernel.

        Raises:
            GraphError: The program cannot be lowered or the chip cannot hold its values, or the
                dump cannot be written.
        """
        self.progress(f"lower {name}", 0, 1)
        start = time.perf_counter()
        step = self.limits.step(name)
        with near_misses_noted(remarks):
            plan, weights = lower_program(
                program,
                target=self.target,
                name=name,
                rows=step.rows,
                requests=step.requests,
                context=step.context,
                blocks=self.limits.blocks,
                steps=self.limits.group_steps,
                drafts=self.limits.drafts,
                branches=self.limits.draft_tree,
                places=self.limits.max_batch,
                results=results_of(program),
            )
        check_arena(plan, self.target)
        if self.writer:
            self.writer.timed(f"lower {name}", time.perf_counter() - start)
            self.writer.plan(plan, plan_cost_record(cost_of_plan(plan, self.target)))
        self.progress(f"lower {name}", 1, 1)
        return plan, weights
