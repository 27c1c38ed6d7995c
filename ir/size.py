"""Sizes of axes: numbers known now, or expressions over names known only at run time."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, cast

import sympy
from sympy.printing.str import StrPrinter

_LONGEST = 400
"""Characters of a size: far beyond any that serving makes, and read in no time."""
_POWERS = 8
"""Largest exponent in a size; there are few axes to multiply."""

Dim = int | sympy.Expr
"""A size: an ``int``, or a SymPy expression over symbols made by `named_size`."""


@cache
def named_size(name: str) -> sympy.Symbol:
    """Return the symbol of a size; equal names are the same symbol (a positive integer)."""
    return sympy.Symbol(name, integer=True, positive=True)


def simplify_size(size: Any) -> Dim:  # SymPy values have no common static type
    """Return ``size`` as an ``int`` when it has no free name, else in expanded form."""
    if isinstance(size, int):
        return size
    expanded = sympy.expand(size)
    return int(expanded) if expanded.is_Integer else expanded


def product(sizes: Iterable[Dim]) -> Dim:
    """Return the product of ``sizes``."""
    number, symbolic = 1, cast("sympy.Expr", sympy.Integer(1))
    for size in sizes:
        if isinstance(size, int):
            number *= size
        else:
            symbolic = symbolic * size
    return simplify_size(symbolic * number)


def names_in(size: Dim) -> frozenset[str]:
    """Return the names ``size`` depends on."""
    return frozenset() if isinstance(size, int) else frozenset(map(str, size.free_symbols))


def bind_size(size: Dim, sizes: Mapping[str, int]) -> int:
    """Return ``size`` as a number.

    Raises:
        KeyError: A name of ``size`` is not in ``sizes``.
    """
    if isinstance(size, int):
        return size
    if isinstance(size, sympy.Symbol):
        return sizes[size.name]
    bound = substitute_size(size, sizes)
    if not isinstance(bound, int):
        raise KeyError(", ".join(sorted(names_in(bound) - sizes.keys())))
    return bound


def substitute_size(size: Dim, replacements: Mapping[str, Dim]) -> Dim:
    """Return ``size`` with names replaced; names without replacement stay."""
    if isinstance(size, int):
        return size
    if isinstance(size, sympy.Symbol):
        return replacements.get(size.name, size)
    table = {
        symbol: sympy.sympify(replacements[symbol.name])
        for symbol in cast("set[sympy.Symbol]", size.free_symbols)
        if symbol.name in replacements
    }
    return simplify_size(size.xreplace(table)) if table else size


def parse_size(text: str) -> Dim:
    """Read the text form of a size, for example ``64``, ``tokens`` or ``2*batch + 1``.

    Raises:
        ValueError: ``text`` is not an arithmetic expression over names and integers.
    """
    if text.lstrip("-").isdecimal():
        return int(text)
    if text.isidentifier():
        return named_size(text)
    if len(text) > _LONGEST:
        raise ValueError(f"not a size: {text[:32]}... has {len(text)} characters")
    return simplify_size(_Reader(text).expression())


class _Reader:
    """Recursive descent over ``+ - * // ( )`` names and integers; never evaluates Python."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = re.findall(r"[A-Za-z_]\w*|\d+|\*\*|//|[-+*(),]", text)
        if "".join(self._tokens) != text.replace(" ", ""):
            raise ValueError(f"not a size: {text}")

    def _take(self) -> str:
        return self._tokens.pop(0) if self._tokens else ""

    def expression(self) -> Any:
        value = self._sum()
        if self._tokens:
            raise ValueError(f"not a size: {self._text}")
        return value

    def _sum(self) -> Any:
        value = self._term()
        while self._tokens and self._tokens[0] in "+-":
            value = value + self._term() if self._take() == "+" else value - self._term()
        return value

    def _term(self) -> Any:
        value = self._power()
        while self._tokens and self._tokens[0] in ("*", "//"):
            if self._take() == "*":
                value = value * self._power()
            else:
                divisor = sympy.sympify(self._power())
                if divisor == 0:
                    raise ValueError(f"not a size: {self._text}")
                value = sympy.floor(value / divisor)
        return value

    def _power(self) -> Any:
        if self._tokens and self._tokens[0] == "-":
            self._take()
            return -self._power()
        value = self._atom()
        if self._tokens and self._tokens[0] == "**":
            self._take()
            exponent = self._atom()
            if not exponent.is_Integer or exponent > _POWERS:
                raise ValueError(f"not a size: {self._text}")
            value = value**exponent
        return value

    def _atom(self) -> Any:
        word = self._take()
        if word == "(":
            value = self._sum()
            if self._take() != ")":
                raise ValueError(f"not a size: {self._text}")
            return value
        if word.isdecimal():
            return sympy.Integer(int(word))
        if word.isidentifier():
            return named_size(word)
        raise ValueError(f"not a size: {self._text}")


def print_size(size: Dim) -> str:
    """Return the text that `parse_size` reads back."""
    text = str(size)
    return _SizePrinter().doprint(size) if "floor(" in text else text


class _SizePrinter(StrPrinter):
    """Writes a rounded-down quotient as ``(a//b)``, always in parentheses."""

    def _print_floor(self, rounded: Any) -> str:
        above, below = sympy.fraction(sympy.together(rounded.args[0]))
        return f"({self._print_side(above)}//{self._print_side(below)})"

    def _print_side(self, side: Any) -> str:
        text = self._print(side)
        return text if text.isidentifier() or text.isdecimal() else f"({text})"
