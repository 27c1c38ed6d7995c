"""Nearest integer."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import sympy

from ascendfx.ir.op import Array
from ascendfx.ir.pointwise import Unary


class _Nearest(sympy.Function):
    """The nearest integer of an expression; it stays as it is until the expression is a number."""

    @classmethod
    def eval(cls, *args: Any) -> Any:  # SymPy has no types
        (x,) = args
        if x.is_integer:
            return x
        if not x.is_number:
            return None
        below = sympy.floor(x)
        twice = 2 * (x - below)
        odd = twice == 1 and below % 2 == 1
        return below + 1 if twice > 1 or odd else below


@dataclass(frozen=True, slots=True)
class Round(Unary):
    """``y`` is the integer nearest to ``a``, of two equally near ones the even one.

    Numerics: exact. A format holds the nearest integer of each of its numbers: where it has digits
    behind the point, it has all integers of that size.
    """

    mnemonic: ClassVar[str] = "round"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Apply the function."""
        (a,) = operands
        if a.dtype != object:
            return (np.rint(a),)
        return (np.vectorize(_nearest, otypes=[object])(a) if a.size else a,)


def _nearest(x: Any) -> Any:
    """Round NumPy's numbers in their format, and expressions as expressions."""
    return np.rint(x) if isinstance(x, float | np.floating) else _Nearest(sympy.sympify(x))
