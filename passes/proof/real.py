"""Real numbers known by their expression, and the case that decides how they are ordered."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import sympy

if TYPE_CHECKING:
    from ascendfx.passes.proof.order_cases import Case

_S = cast("Any", sympy)  # SymPy is partly typed


class Real:
    """An element of an operand or a result: arithmetic builds expressions, order asks the case.

    NumPy accepts arrays of these; its functions call the methods of the same names.
    """

    __slots__ = ("case", "expression")

    def __init__(self, expression: Any, case: Case) -> None:
        self.expression = expression
        self.case = case

    def _new(self, expression: Any) -> Real:
        return Real(expression, self.case)

    def __add__(self, other: Any) -> Real:
        return self._new(self.expression + exactly(other))

    def __sub__(self, other: Any) -> Real:
        return self._new(self.expression - exactly(other))

    def __rsub__(self, other: Any) -> Real:
        return self._new(exactly(other) - self.expression)

    def __mul__(self, other: Any) -> Real:
        return self._new(self.expression * exactly(other))

    def __truediv__(self, other: Any) -> Real:
        return self._new(self.expression / exactly(other))

    def __rtruediv__(self, other: Any) -> Real:
        return self._new(exactly(other) / self.expression)

    def __pow__(self, other: Any) -> Real:
        return self._new(self.expression ** exactly(other))

    def __rpow__(self, other: Any) -> Real:
        return self._new(exactly(other) ** self.expression)

    def __neg__(self) -> Real:
        return self._new(-self.expression)

    __radd__ = __add__
    __rmul__ = __mul__

    def exp(self) -> Real:
        """Return the exponential."""
        return self._new(_S.exp(self.expression))

    def log(self) -> Real:
        """Return the natural logarithm."""
        return self._new(_S.log(self.expression))

    def sqrt(self) -> Real:
        """Return the square root."""
        return self._new(_S.sqrt(_without_denominators(self.expression)))

    def cos(self) -> Real:
        """Return the cosine."""
        return self._new(_S.cos(self.expression))

    def sin(self) -> Real:
        """Return the sine."""
        return self._new(_S.sin(self.expression))

    def __gt__(self, other: Any) -> bool:
        return self.case.is_positive(self.expression, exactly(other))

    def __lt__(self, other: Any) -> bool:
        return self.case.is_positive(exactly(other), self.expression)

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __eq__(self, other: object) -> bool:
        return not self < other and not self > other

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return str(self.expression)


def _without_denominators(expression: Any) -> Any:
    """Cancel what symbols are divided by, so that equal roots are recognised as equal."""
    if not any(power.exp.is_negative for power in expression.atoms(_S.Pow)):
        return expression
    return _S.expand(_S.cancel(expression))


def exactly(value: Any) -> Any:
    """Return the expression of a number: the simplest fraction that rounds to it, if it is one."""
    if isinstance(value, Real):
        return value.expression
    if isinstance(value, int | np.integer | np.bool_):
        return _S.Integer(int(value))
    if isinstance(value, float | np.floating):
        return _fraction(float(value))
    return value


def _fraction(number: float) -> Any:
    if not np.isfinite(number):
        return _S.nan if np.isnan(number) else _S.oo if number > 0 else -_S.oo
    simple = Fraction(number).limit_denominator(10**6)
    if float(simple) != number:
        simple = Fraction(repr(number))
    return _S.Rational(simple.numerator, simple.denominator)
