"""What a task is: how it reads rows, what it asks of the model, what it adds up, what it tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.sample import Reader, Row, Sample
from ascendfx.runtime.evaluate.sums import Sums
from ascendfx.runtime.evaluate.token_scores import TokenScores

Figures = dict[str, float]
"""What is reported, by name."""


class Task(Protocol):
    """Common to all tasks; each is a value without state."""

    @property
    def name(self) -> str:
        """How it is asked for."""
        ...

    def fits(self, row: Row) -> bool:
        """Return whether a row that names no task is of this one."""
        ...

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return what a row asks.

        Raises:
            GraphError: `bad-samples`, `sample-too-long`.
        """
        ...

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return what sums over samples mean."""
        ...


@runtime_checkable
class ScoringTask(Task, Protocol):
    """Looks at what the model says of given texts."""

    def sums(self, sample: Sample, scores: Sequence[TokenScores]) -> Sums:
        """Return what one sample adds: scores of each of its parts."""
        ...


class AnsweringTask(Task, Protocol):
    """Looks at what the model writes."""

    def judge(self, sample: Sample, answer: "Answer") -> tuple[Sums, str]:
        """Return what an answer adds, and what is to be told of it."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote.

    Attributes:
        text: Up to the first stop.
        ids: All tokens.
    """

    text: str
    ids: tuple[int, ...]


def ratio(sums: Mapping[str, float], name: str, per: str) -> float:
    """Return a mean."""
    return sums[name] / sums[per]
