"""The choices with the smallest sum of scores whose costs stay within limits: exactly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import fsum, isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.mixed_precision.without_solver_lines import without_solver_lines

Table: TypeAlias = Sequence[Sequence[float]]
"""A number for each choice of each unit."""

_SCALE = 1e4
"""The largest difference of scores that the solver sees: it stops within 1e-6 of the best."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a sum of costs may be at most.

    Attributes:
        name: What is limited, for messages.
        costs: Of each choice.
        most: The limit.
        fixed: What is spent whatever is chosen.
    """

    name: str
    costs: Table
    most: float
    fixed: float = 0.0

    @property
    def least(self) -> float:
        """The smallest sum that there is."""
        return fsum((self.fixed, *(min(row) for row in self.costs)))

    def holds(self, choices: Sequence[int]) -> bool:
        """Whether choices stay within the limit."""
        spent = (row[choice] for row, choice in zip(self.costs, choices, strict=True))
        return fsum((self.fixed, *spent)) <= self.most


def total(table: Table, choices: Sequence[int]) -> float:
    """Return the sum of a table over the choices, rounded once."""
    return fsum(row[choice] for row, choice in zip(table, choices, strict=True))


def best_choices(scores: Table, limits: Sequence[Limit]) -> tuple[int, ...]:
    """Return a choice for each unit: none within the limits has a smaller sum of scores.

    A mixed-integer linear program, solved by HiGHS. It works with tolerances, so what it returns is
    checked: choices that break a limit by less than those are forbidden, with all that cost as
    much in each unit, and it looks again.

    Args:
        scores: Of each choice of each unit.
        limits: Costs of the same choices, and what they may be together.

    Raises:
        GraphError: `budget-too-small`: no choices stay within the limits; `bad-scores`: numbers
            that are not finite, or tables of other sizes; `missing-package`: scipy.
    """
    _check(scores, limits)
    for limit in limits:
        if limit.least > limit.most:
            reason = f"{limit.name} of at most {limit.most:,.12g} cannot be had"
            hint = f"the least is {limit.least:,.12g}: raise the limit, or add a smaller recipe"
            raise GraphError("budget-too-small", reason, hint=hint)
    optimize, sparse = _solver()
    objective = _shifted(scores)
    objective = objective / (objective.max(initial=0) or 1) * _SCALE
    sizes = [len(row) for row in scores]
    places = np.repeat(np.arange(len(sizes)), sizes), np.arange(sum(sizes))
    one_each = sparse.csr_array((np.ones(sum(sizes)), places), (len(sizes), sum(sizes)))
    rows: list[Any] = [one_each]
    low, high = [1.0] * len(sizes), [1.0] * len(sizes)
    for row, most in _limit_rows(limits):
        rows.append(sparse.csr_array(row[None]))
        low.append(-np.inf)
        high.append(most)
    while True:
        constraint = optimize.LinearConstraint(sparse.vstack(rows), low, high)
        with without_solver_lines():
            found = optimize.milp(
                objective,
                constraints=constraint,
                integrality=np.ones(len(objective)),
                bounds=optimize.Bounds(0, 1),
                options={"mip_rel_gap": 0.0},
            )
        if found.x is None:
            reason = "no choices stay within all limits together"
            hint = "raise one of them: " + ", ".join(f"{x.name} {x.most:,g}" for x in limits)
            raise GraphError("budget-too-small", reason, hint=hint)
        choices = _choices(found.x, sizes)
        broken = next((limit for limit in limits if not limit.holds(choices)), None)
        if broken is None:
            return choices
        rows.append(sparse.csr_array(_as_dear(broken, choices)[None]))
        low.append(-np.inf)
        high.append(len(sizes) - 1.0)


def _solver() -> tuple[Any, Any]:
    try:
        return import_module("scipy.optimize"), import_module("scipy.sparse")
    except ImportError as error:
        raise GraphError(
            "missing-package",
            "the best choice under a limit needs the package `scipy`, which is not installed",
            hint="pip install 'ascendfx[quantize]'",
        ) from error


def _check(scores: Table, limits: Sequence[Limit]) -> None:
    tables = [("scores", scores), *((limit.name, limit.costs) for limit in limits)]
    sizes = [len(row) for row in scores]
    for name, table in tables:
        if [len(row) for row in table] != sizes or not all(sizes):
            reason = f"{name} are not of the choices of these units"
            raise GraphError("bad-scores", reason, hint="give one number for each choice")
        for place, row in enumerate(table):
            if not all(map(isfinite, row)):
                reason = f"{name} of unit {place} are {', '.join(f'{each:g}' for each in row)}"
                hint = "look for damage in the weights, or for activations that overflowed"
                raise GraphError("bad-scores", reason, hint=hint)


def _limit_rows(limits: Sequence[Limit]) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Yield rows and right sides; numbers near 1, so that tolerances mean the same everywhere."""
    for limit in limits:
        row = _shifted(limit.costs)
        left = limit.most - limit.least
        scale = row.max(initial=0) or 1
        yield row / scale, left / scale


def _shifted(table: Table) -> NDArray[np.float64]:
    """Return what each choice has more than the smallest of its unit, one after the other."""
    return np.concatenate([[0.0][:0], *(np.asarray(row) - min(row) for row in table)])


def _choices(found: NDArray[np.float64], sizes: Sequence[int]) -> tuple[int, ...]:
    parts = np.split(found, np.cumsum(sizes)[:-1])
    return tuple(int(part.argmax()) for part in parts)


def _as_dear(limit: Limit, choices: Sequence[int]) -> NDArray[np.float64]:
    """Mark what costs as much as choices that break a limit: some unit needs another one."""
    pairs = zip(limit.costs, choices, strict=True)
    return np.array([float(cost >= row[choice]) for row, choice in pairs for cost in row])
