"""The best choices for many limits on one cost: what a smaller model costs in quality."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from ascendfx.quant_passes.mixed_precision.best_choices import Limit, Table, best_choices, total


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Choices for all units, with what they cost and how they score.

    Attributes:
        cost: Sum of costs.
        score: Sum of scores.
        choices: Of each unit.
    """

    cost: float
    score: float
    choices: tuple[int, ...]


def pareto_front(
    scores: Table, costs: Table, *, points: int = 32, limits: Sequence[Limit] = ()
) -> tuple[FrontPoint, ...]:
    """Return points of the front, the cheapest first.

    No choices at all are better than a point in one of both and as good in the other. Between two
    points there may be more: limits are spread evenly between the cheapest and the best.

    Args:
        scores: Of each choice of each unit.
        costs: Of each choice of each unit.
        points: How many limits are tried, at least two.
        limits: What holds besides.

    Raises:
        GraphError: As `best_choices`.
    """
    found: list[FrontPoint] = []
    for most in _limits(scores, costs, points, limits):
        if found and most < found[-1].cost:  # the limit is met by what is known already
            continue
        point = _point(scores, costs, most, limits)
        if not found or point.choices != found[-1].choices:
            found.append(point)
    return tuple(found)


def _limits(scores: Table, costs: Table, points: int, limits: Sequence[Limit]) -> Iterator[float]:
    cheapest = total(costs, best_choices(costs, limits))
    best = _point(scores, costs, fsum(max(row) for row in costs), limits).cost
    last = max(2, points) - 1
    yield from (cheapest + (best - cheapest) * step / last for step in range(last))
    yield best


def _point(scores: Table, costs: Table, most: float, limits: Sequence[Limit]) -> FrontPoint:
    """Return the cheapest of the best choices within a limit."""
    best = best_choices(scores, [*limits, Limit("the cost", costs, most)])
    score = total(scores, best)
    choices = best_choices(costs, [*limits, Limit("the score", scores, score)])
    return FrontPoint(total(costs, choices), total(scores, choices), choices)
