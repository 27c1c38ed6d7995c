"""Run the passes of a stage: dumps, verification and progress beside them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import PassRun, run_pipeline
from ascendfx.passes.remark import Remark
from ascendfx.passes.verification.verify_pass import fidelity_error, rewritten
from ascendfx.passes.verification.verify_stages import StageVerifier
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.near_misses import near_misses_noted
from ascendfx.runtime.progress import Progress
from ascendfx.runtime.search_summary import SearchSummary, search_summaries


@dataclass(frozen=True)
class Rewriting:
    """How stages are run.

    Attributes:
        writer: Receives every program; None: no dumps.
        verifier: Compares every program with the truth; None: no verification.
        progress: Told after each pass.
        searches: Receives what each search did.
    """

    writer: DumpWriter | None
    verifier: StageVerifier | None
    progress: Progress
    searches: list[SearchSummary] = field(default_factory=list)

    def run(
        self, stage: str, program: Program, passes: Sequence[ProgramPass]
    ) -> tuple[Program, tuple[Remark, ...]]:
        """Return the program after the passes of a stage, and their remarks.

        Raises:
            GraphError: A pass refuses the program or breaks its fidelity, or a dump cannot be
                written.
        """
        if self.writer:
            self.writer.stage(stage, program)
        return self.go_on(stage, program, passes)

    def go_on(
        self, stage: str, program: Program, passes: Sequence[ProgramPass]
    ) -> tuple[Program, tuple[Remark, ...]]:
        """Return the program after further passes of a stage, and their remarks.

        Raises:
            GraphError: As `run`.
        """
        start = time.perf_counter()
        remarks: list[Remark] = []
        done = 0
        self.progress(stage, 0, len(passes))

        def passed(run: PassRun) -> None:
            nonlocal done
            done += 1
            remarks.extend(run.remarks)
            self._record(stage, run)
            self.searches.extend(search_summaries(stage, run))
            self.progress(stage, done, len(passes))

        with near_misses_noted(remarks):
            final, _ = run_pipeline(program, passes, observe=passed)
        if self.writer:
            self.writer.timed(stage, time.perf_counter() - start)
        return final, tuple(remarks)

    def _record(self, stage: str, run: PassRun) -> None:
        check = self.verifier.check(stage, rewritten(run)) if self.verifier else None
        if self.writer:
            self.writer.passed(stage, run, check)
        if check and self.verifier and check.broken:
            dump = str(self.writer.directory) if self.writer else ""
            raise fidelity_error(check, self.verifier.checks, self.verifier.shape, dump)
