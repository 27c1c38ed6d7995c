"""Answers in numbers: the last number of what a model writes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.question import means, prompt_sample
from ascendfx.runtime.evaluate.sample import Reader, Row, Sample, wrong
from ascendfx.runtime.evaluate.sums import Sums
from ascendfx.runtime.evaluate.task import Answer, Figures

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:/\d+(?![\d.]))?(?!\w)")
_MARKS = re.compile(r"####|\\boxed\{|(?i:answer\s*(?:is|:))")
_FRACTION = re.compile(r"\\d?frac\{(-?\d+)\}\{(\d+)\}")


@dataclass(frozen=True, slots=True)
class Mathematics:
    r"""A question and a number; the last number that the model writes counts.

    Behind ``####``, ``\boxed{`` or "answer is" it is the first one. Numbers are compared as such:
    1,200 is 1200.0, and 1/2 is 0.5.
    """

    name: str = "maths"

    def fits(self, row: Row) -> bool:
        """Return whether the answer is a number, or is marked as one."""
        answer = row.get("answer")
        known = isinstance(answer, int | float) and not isinstance(answer, bool)
        return known or (isinstance(answer, str) and "####" in answer)

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return the sample."""
        answer: Any = row.get("answer")
        text = answer if isinstance(answer, str) else repr(answer)
        if isinstance(answer, bool) or final_number(text) is None:
            reason = f"`answer` is {answer!r:.60}" if "answer" in row else "there is no `answer`"
            raise wrong(f"{reason}, no number", "write a number as `answer`", place)
        return [prompt_sample(self.name, row, reader, place, (text,), ("\n\n",))]

    def judge(self, sample: Sample, answer: Answer) -> tuple[Sums, str]:
        """Return what an answer adds."""
        own, right = final_number(answer.text), final_number(sample.texts[0])
        return {"accuracy": float(own == right), "numbers": float(own is not None)}, ""

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return means over samples; ``numbers``: share of answers that have one."""
        return means(sums, ("accuracy", "numbers"))


def final_number(text: str) -> Fraction | None:
    """Return the number that a text ends with, or the one behind its last mark; None: none."""
    plain = _FRACTION.sub(r"\1/\2", text.replace("\u2212", "-").replace("$", ""))
    marks = list(_MARKS.finditer(plain))
    if marks:
        found = _NUMBER.search(plain, marks[-1].end())
        if found:
            return _value(found[0])
    numbers = _NUMBER.findall(plain)
    return _value(numbers[-1]) if numbers else None


def _value(number: str) -> Fraction | None:
    above, _, below = number.replace(",", "").partition("/")
    if below and not int(below):
        return None
    return Fraction(above) / (int(below) if below else 1)
