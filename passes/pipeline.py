"""Run passes in order, and remember what each one did."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pass_contract import check_declared, checked_result
from ascendfx.passes.remark import Remark


@dataclass(frozen=True, slots=True)
class PassRun:
    """One line of the pipeline report.

    Attributes:
        rewrite: The pass.
        seconds: How long it took; never part of a result.
        statistics: Counts by name.
        remarks: Missed opportunities.
        before: The program that it was given.
        program: The program after the pass; the object before it if nothing changed.
    """

    rewrite: ProgramPass
    seconds: float
    statistics: Mapping[str, int]
    remarks: tuple[Remark, ...]
    before: Program
    program: Program

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.rewrite.name

    @property
    def changed(self) -> bool:
        """Whether the pass did anything."""
        return self.program is not self.before


PassObserver = Callable[[PassRun], None]
"""Called after each pass: for dumps, progress and verification; what it raises ends the run."""


def unobserved(run: PassRun) -> None:
    """Do nothing."""


def run_pipeline(
    program: Program, passes: Iterable[ProgramPass], *, observe: PassObserver = unobserved
) -> tuple[Program, tuple[PassRun, ...]]:
    """Return the final program and one record per pass.

    Raises:
        GraphError: A pass refuses the program or is wrong, see `pass_contract`.
    """
    runs: list[PassRun] = []
    for each in passes:
        check_declared(each)
        start = time.perf_counter()
        result = checked_result(each, program)
        elapsed = time.perf_counter() - start
        run = PassRun(each, elapsed, result.statistics, result.remarks, program, result.program)
        runs.append(run)
        observe(run)
        program = result.program
    return program, tuple(runs)
