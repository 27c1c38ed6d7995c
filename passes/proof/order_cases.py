"""All cases of how real expressions are ordered, one after the other.

A computation that compares is run again and again. Where a comparison may turn out either way, in
view of what was decided before in the same run, both ways are taken, in different runs. What may
turn out either way is decided by linear arithmetic over the terms of the expressions: a pair of
decisions that contradict each other in a way that only their functions show (``x < y`` and
``cos(x) > cos(y)``) makes a case that cannot occur. Such a case costs time, never soundness.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar, cast

import sympy

from ascendfx.passes.proof.linear_feasibility import Inequality, Row, feasible, solution

_S = cast("Any", sympy)  # SymPy is partly typed
_ONE = _S.Integer(1)
_Result = TypeVar("_Result")


class Case:
    """One way to order what is compared.

    Attributes:
        asked: Whether anything was compared whose order is not known from the expressions.
    """

    def __init__(self, path: tuple[bool, ...] = ()) -> None:
        self.asked = False
        self.alternatives: list[tuple[bool, ...]] = []
        self._path = path
        self._taken: list[bool] = []
        self._known: dict[Any, bool] = {}
        self._system: list[Inequality] = []
        self._terms: set[Any] = set()
        self._point: dict[Any, Fraction] = {}

    def is_positive(self, a: Any, b: Any) -> bool:
        """Decide ``a > b``."""
        return self._sign_is_positive(_difference(a, b))

    def _sign_is_positive(self, difference: Any) -> bool:
        if (known := _known_sign(difference)) is not None:
            return known > 0
        if difference not in self._known:
            factors = _factors(difference)
            if factors == (difference,):
                positive = self._decide(difference)
            elif len(factors) == 1:
                positive = self._sign_is_positive(factors[0])
            else:
                positive = self._product(factors) > 0
            self._known[difference] = positive
        return self._known[difference]

    def _product(self, factors: tuple[Any, ...]) -> int:
        sign = 1
        for factor in factors:
            if self._sign_is_positive(_S.expand(-factor)):
                sign = -sign
            elif not self._sign_is_positive(factor):
                return 0
        return sign

    def _decide(self, difference: Any) -> bool:
        """Take what follows, or the next step of the path, or yes."""
        self.asked = True
        yes = [Inequality(row, strict=True) for row in _rows(difference)]
        no = [Inequality(row, strict=False) for row in _rows(-difference)]
        self._learn(yes)
        place = len(self._taken)
        if place < len(self._path):
            answer = self._path[place]
        else:
            answer = self._possible(yes)
            if answer and self._possible(no):
                self.alternatives.append((*self._taken, False))
        self._taken.append(answer)
        self._system += yes if answer else no
        return answer

    def _possible(self, more: list[Inequality]) -> bool:
        """Say whether some values fit, and remember them: often they answer the next question."""
        system = [*self._system, *more]
        if all(each.holds(self._point) for each in system):
            return True
        found = solution(system)
        self._point = self._point if found is None else found
        return found is not None

    def _learn(self, inequalities: list[Inequality]) -> None:
        """Add what is known of the signs of the terms."""
        for term in {term for each in inequalities for term in each.row} - self._terms:
            self._terms.add(term)
            if term.is_nonnegative:
                row = {term: Fraction(1)}
                self._system.append(Inequality(row, strict=bool(term.is_positive)))

    def equalities(self) -> list[Any]:
        """Return the expressions that are zero in this case."""
        return [
            sum(_S.Rational(c.numerator, c.denominator) * term for term, c in each.row.items())
            for each in self._system
            if not each.strict and not feasible([*self._system, Inequality(each.row, strict=True)])
        ]

    def example(self) -> dict[Any, Fraction] | None:
        """Return values of the symbols in this case, if only symbols were compared."""
        found = solution(self._system) if self._system else {}
        if found is None or not all(term.is_Symbol or term == 1 for term in found):
            return None
        unit = found.get(_ONE, Fraction(1))
        return {term: value / unit for term, value in found.items() if term != 1}

    def __str__(self) -> str:
        shown = [f"{_shown(each.row)} {'>' if each.strict else '>='} 0" for each in self._system]
        return ", ".join(shown)


def _shown(row: Row) -> str:
    return str(sum(_S.Rational(c.numerator, c.denominator) * term for term, c in row.items()))


def each_case(run: Callable[[Case], _Result]) -> Iterator[tuple[Case, _Result]]:
    """Yield every case of ``run`` with its result."""
    pending: list[tuple[bool, ...]] = [()]
    while pending:
        case = Case(pending.pop())
        result = run(case)
        pending += case.alternatives
        yield case, result


@lru_cache(maxsize=100_000)
def _difference(a: Any, b: Any) -> Any:
    if a.is_infinite or b.is_infinite:
        return _S.Integer(int(bool(a > b)) - int(bool(a < b))) if a != b else _S.Integer(0)
    return _S.expand(a - b)


@lru_cache(maxsize=100_000)
def _known_sign(difference: Any) -> int | None:
    if difference.is_positive:
        return 1
    if difference.is_nonpositive:
        return -1
    return None


@lru_cache(maxsize=100_000)
def _factors(difference: Any) -> tuple[Any, ...]:
    """Return factors whose signs multiply to that of ``difference``, those of known sign left out.

    An even power counts as its base twice.
    """
    factors: list[Any] = []
    negative = False
    for factor in _S.Mul.make_args(_S.factor_terms(difference)):
        base, exponent = factor.as_base_exp()
        if factor.is_positive:
            continue
        if factor.is_negative:
            negative = not negative
        elif exponent.is_Integer:
            factors += [base] * (1 + int(exponent % 2 == 0))
        else:
            factors.append(factor)
    first, *others = factors or [_ONE]
    return (_S.expand(-first) if negative else _S.expand(first), *others)


@lru_cache(maxsize=100_000)
def _rows(difference: Any) -> tuple[Row, ...]:
    """Return linear forms whose signs are that of ``difference``, over its terms.

    Two terms are also compared by the arguments of the exponentials they differ in, because the
    exponential is monotone.
    """
    forms = [difference]
    terms = _S.Add.make_args(difference)
    if len(terms) == 2:
        above, below = _S.fraction(_S.together(difference))
        if below.is_positive:
            forms += _of_exponentials(_S.expand(above))
    rows: list[Row] = []
    for form in forms:
        row: dict[Any, Fraction] = {}
        for term in _S.Add.make_args(_S.expand(form)):
            factor, rest = term.as_coeff_Mul()
            if not factor.is_Rational:
                factor, rest = _ONE, term
            row[rest] = row.get(rest, Fraction(0)) + Fraction(int(factor.p), int(factor.q))
        rows.append(row)
    return tuple(rows)


def _of_exponentials(difference: Any) -> list[Any]:
    """Return ``x - y`` for ``exp(x) - exp(y)``."""
    terms = _S.Add.make_args(difference)
    if len(terms) != 2 or {str(t.as_coeff_Mul()[0]) for t in terms} != {"1", "-1"}:
        return []
    signs = {t.as_coeff_Mul()[0]: t.as_coeff_Mul()[1] for t in terms}
    first, second = signs[_S.Integer(1)], signs[_S.Integer(-1)]
    if not all(each.func is _S.exp for each in (first, second)):
        return []
    return [first.args[0] - second.args[0]]
