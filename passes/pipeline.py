"""Run passes in order, and remember what each one did."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.verify import verify_values
from ascendfx.passes.graph_pass import PassResult, ProgramPass
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
        GraphError: A pass refuses the program, or returns something else than a program,
            or a program with values that are not there.
    """
    runs: list[PassRun] = []
    for each in passes:
        start = time.perf_counter()
        result = each.run(program)
        elapsed = time.perf_counter() - start
        _check_result(each.name, result)
        run = PassRun(each, elapsed, result.statistics, result.remarks, program, result.program)
        runs.append(run)
        observe(run)
        program = result.program
    return program, tuple(runs)


def _check_result(name: str, result: object) -> None:
    if not isinstance(result, PassResult) or not isinstance(result.program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = result.program if isinstance(result, PassResult) else result
        raise GraphError(
            "pass-result",
            f"pass `{name}` returned `{type(found).__name__}`",
            hint="a pass returns PassResult(program), with the program it was given if nothing "
            "applied",
        )
    for each in result.remarks:
        if not isinstance(each, Remark):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(
                "pass-result",
                f"pass `{name}` gave the remark {each!r}, which is no Remark",
                hint="give Remark(text, node.location), of ascendfx.passes.remark",
            )
    verify_values(result.program, made_by=f"pass `{name}`")
