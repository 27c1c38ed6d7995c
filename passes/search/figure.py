"""How the statistics of the search name what a form of a function costs, and how they are read."""

import re
from dataclasses import dataclass

from ascendfx.passes.search.op_cost import Cost

FOUND, ORDERED, GIVEN, CHOSEN = "search", "ordered", "given", "chosen"
"""Forms: what search found, what the fixed order makes, what was given, and which was taken."""
NANOSECONDS, BYTES, OPERATIONS = "nanoseconds", "bytes", "operations"
"""Units."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A modelled figure of one form.

    Attributes:
        graph: Name of the function.
        form: One of the forms above.
        unit: One of the units above.
    """

    graph: str
    form: str
    unit: str

    def __str__(self) -> str:
        return f"{self.graph}, {self.form}: {self.unit}"


_NAME = re.compile(
    rf"(?P<graph>.+), (?P<form>{FOUND}|{ORDERED}|{GIVEN}|{CHOSEN})"
    rf": (?P<unit>{NANOSECONDS}|{BYTES}|{OPERATIONS})",
    re.DOTALL,
)


def read_figure(name: str) -> Figure | None:
    """Return the figure that a name of a statistic stands for, or None for another statistic."""
    found = _NAME.fullmatch(name)
    return Figure(**found.groupdict()) if found else None


def figures_of(graph: str, form: str, cost: Cost) -> dict[str, int]:
    """Return the statistics of one form."""
    numbers = {NANOSECONDS: cost.seconds * 1e9, BYTES: cost.bytes, OPERATIONS: cost.operations}
    return {str(Figure(graph, form, unit)): round(each) for unit, each in numbers.items()}
