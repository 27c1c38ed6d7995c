"""Whether linear inequalities can hold together, exactly: an integer simplex.

Rows are homogeneous: a constant is the coefficient of a variable that is positive. A system with
strict rows has a solution exactly if its scaled versions have, so that "every strict row >= t,
t <= 1, t as large as possible" decides it: feasible if and only if t can be positive.

Source: G. B. Dantzig, Linear Programming and Extensions, chapter 5 (simplex); R. G. Bland, New
finite pivoting rules, Math. Oper. Res. 2 (1977); J. Edmonds, Systems of distinct representatives
and linear algebra, J. Res. NBS 71B (1967) for pivoting in integers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

Row = Mapping[Any, Fraction]
"""Coefficients by variable; variables are hashable and otherwise opaque."""


@dataclass(frozen=True, slots=True)
class Inequality:
    """``sum of coefficient * variable`` is positive, or not negative."""

    row: Row
    strict: bool

    def holds(self, values: Mapping[Any, Fraction]) -> bool:
        """Say whether these values satisfy it; what is not given is zero."""
        total = sum(factor * values.get(name, 0) for name, factor in self.row.items())
        return total > 0 or (total == 0 and not self.strict)


def feasible(system: Sequence[Inequality]) -> bool:
    """Return whether some values of the variables satisfy every inequality."""
    return solution(system) is not None


def solution(system: Sequence[Inequality]) -> dict[Any, Fraction] | None:
    """Return values that satisfy every inequality, or None if there are none.

    Every variable is free; one more, ``y0``, is subtracted from all so that the simplex sees
    non-negative ones.
    """
    names = list(dict.fromkeys(name for each in system for name in each.row))
    if not any(each.strict for each in system):
        return dict.fromkeys(names, Fraction(0))
    tableau = _tableau(system, names)
    basis = list(range(len(names) + 2, len(names) + 3 + len(system)))
    scale = _maximise(tableau, basis)
    values = {column: Fraction(tableau[i, -1], scale) for i, column in enumerate(basis)}
    if values.get(len(names) + 1, 0) <= 0:
        return None
    shift = values.get(len(names), Fraction(0))
    return {name: values.get(i, Fraction(0)) - shift for i, name in enumerate(names)}


def _tableau(system: Sequence[Inequality], names: Sequence[Any]) -> Any:
    """Return ``[constraints + bound of t, objective]`` over variables, y0, t, slacks and value."""
    count, width = len(system), len(names)
    tableau = np.zeros((count + 2, width + 2 + count + 1 + 1), object)
    places = {name: i for i, name in enumerate(names)}
    for i, each in enumerate(system):
        factor = lcm(*(value.denominator for value in each.row.values())) if each.row else 1
        for name, value in each.row.items():
            tableau[i, places[name]] = -int(value * factor)
        tableau[i, width] = -sum(tableau[i, :width])
        tableau[i, width + 1] = int(each.strict)
        tableau[i, width + 2 + i] = 1
    tableau[count, width + 1] = tableau[count, width + 2 + count] = tableau[count, -1] = 1
    tableau[count + 1, width + 1] = -1
    return tableau


def _maximise(tableau: Any, basis: list[int]) -> int:
    """Pivot until no column improves; return the common denominator of the tableau."""
    scale = 1
    while True:
        columns = [j for j in range(tableau.shape[1] - 1) if tableau[-1, j] < 0]
        if not columns:
            return scale
        column = columns[0]  # Bland: the first, so that degenerate pivots do not cycle
        rows = [i for i in range(tableau.shape[0] - 1) if tableau[i, column] > 0]
        assert rows, "t is bounded by one"  # noqa: S101
        row = min(rows, key=lambda i: (Fraction(tableau[i, -1], tableau[i, column]), basis[i]))
        pivot = tableau[row, column]
        others = np.arange(tableau.shape[0]) != row
        tableau[others] = (
            tableau[others] * pivot - np.outer(tableau[others, column], tableau[row])
        ) // scale
        basis[row], scale = column, pivot
