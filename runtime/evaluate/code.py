"""Programs: whether what a model writes is Python, and, if asked for, whether it passes tests."""

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.question import means, prompt_sample
from ascendfx.runtime.evaluate.run_program import CodeLimits, run_program
from ascendfx.runtime.evaluate.sample import Reader, Row, Sample, text_of
from ascendfx.runtime.evaluate.sums import Sums
from ascendfx.runtime.evaluate.task import Answer, Figures

_STOPS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint(", "\n@", "\nassert ")


@dataclass(frozen=True, slots=True)
class Code:
    """The begin of a program, and tests that the whole must pass.

    Nothing is executed without ``limits``: then ``parses`` is all that is told, the share of whole
    programs that are Python.

    Attributes:
        limits: Of the process that a program and its tests run in; None: none runs.
    """

    limits: CodeLimits | None = None
    name: str = "code"

    def fits(self, row: Row) -> bool:
        """Return whether there are tests."""
        return "tests" in row

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return the sample."""
        tests = text_of(row, ("tests",), place)
        prompt = text_of(row, ("prompt", "question"), place)
        return [prompt_sample(self.name, row, reader, place, (prompt, tests), _STOPS)]

    def judge(self, sample: Sample, answer: Answer) -> tuple[Sums, str]:
        """Return what a program adds."""
        prompt, tests = sample.texts
        whole = f"{prompt}{answer.text}\n"
        sums = {"parses": float(_parses(whole))}
        if self.limits is None:
            return sums, ""
        passed, why = run_program(f"{whole}\n{tests}\n", self.limits)
        return {**sums, "passed": float(passed)}, "" if passed else f"tests: {why}"

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return shares of samples."""
        return means(sums, ("parses", "passed"))


def _parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the model writes, such as "\d"
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
