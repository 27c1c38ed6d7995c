"""Sums over samples that do not depend on how the samples were divided among workers.

Each sample gives sums of its own, computed from nothing but the sample; `math.fsum` rounds their
total once, whatever their order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

Sums = Mapping[str, float]
"""By name. A sample that says nothing of a name leaves it out."""


@dataclass(frozen=True, slots=True)
class Record:
    """What one sample gave.

    Attributes:
        index: Its number among all samples.
        task: Which task it belongs to.
        language: As its set has it.
        kind: As its set has it.
        sums: What is added up.
        remark: What is to be told of it; empty: nothing.
    """

    index: int
    task: str
    language: str
    kind: str
    sums: Sums
    remark: str = ""


def total(records: Iterable[Record]) -> dict[str, float]:
    """Return the sums over samples, and under ``samples`` how many there are."""
    found: dict[str, list[float]] = {}
    count = 0
    for record in records:
        count += 1
        for name, value in record.sums.items():
            found.setdefault(name, []).append(value)
    return {"samples": float(count), **{name: fsum(values) for name, values in found.items()}}
