"""Scores of rotated queries and keys depend on differences of positions only: shown on the symbols.

What is shown is about the operation as it is defined: its `reference` runs on expressions, and
which lanes of its result are the two halves of a pair is found by running it, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import sympy

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Rotary

_S = cast("Any", sympy)  # SymPy is partly typed

_PAIRS = 2
"""Pairs of the symbolic vectors: enough for a lane that is taken from another pair."""


class Angle(NamedTuple):
    """A column of rotation tables: ``factor * cos(position * frequency + phase)``, and its sine.

    Attributes:
        factor: Of both tables.
        frequency: Free of positions.
        phase: Free of positions.
    """

    factor: Any
    frequency: Any
    phase: Any


@dataclass(frozen=True, slots=True)
class Lanes:
    """What stands where in the result of a rotation.

    Attributes:
        pair: Column of the tables that each lane uses.
        half: 0 or 1: which half of that pair.
    """

    pair: tuple[int, ...]
    half: tuple[int, ...]

    def of_pair(self, pair: int) -> tuple[int, int]:
        """Return the lanes of both halves."""
        places = list(zip(self.pair, self.half, strict=True))
        return places.index((pair, 0)), places.index((pair, 1))


@lru_cache(maxsize=64)
def lanes_of(op: Rotary, columns: int) -> Lanes:
    """Return the lanes of a rotation with tables of so many columns.

    Raises:
        GraphError: A rotation by nothing moves more than places.
    """
    x = np.arange(2 * columns, dtype=np.float64)
    one, zero = np.ones(columns), np.zeros(columns)
    (source,) = op.reference(x, one, zero)
    (column,) = op.reference(np.ones(2 * columns), np.arange(columns, dtype=np.float64), zero)
    pairs = np.split(np.argsort(column, kind="stable"), columns)
    halves = np.zeros(2 * columns, int)
    for lanes in pairs:
        halves[lanes[np.argmax(source[lanes])]] = 1
    by_two = np.array_equal(np.sort(column), np.repeat(np.arange(columns), 2))
    if not by_two or not np.array_equal(np.sort(source), x):
        raise _not_proved(op, "a rotation by the angle 0 is no permutation of pairs")
    return Lanes(tuple(map(int, column)), tuple(map(int, halves)))


@lru_cache(maxsize=64)
def prove_shift(query: Rotary, key: Rotary) -> None:
    """Show that a shift of both positions leaves the product of every rotated pair as it is.

    With ``q' = query(q, angles of m)`` and ``k' = key(k, angles of n)``, for free ``q``, ``k``,
    positions, frequencies, phases and factor, ``q'_0 k'_0 + q'_1 k'_1`` of each pair is the same at
    ``m + s`` and ``n + s``. Sines and cosines of sums are expanded; what remains is a polynomial
    that vanishes with ``sin^2 + cos^2 = 1`` of the shift alone. Source: Su et al., arXiv
    2104.09864, section 3.2.1, states the property.

    Raises:
        GraphError: A difference remains.
    """
    m, n, s, factor = _S.symbols("m n s c")
    frequencies = _S.symbols(f"f:{_PAIRS}")
    before = _products(query, key, (m, n), frequencies, factor)
    after = _products(query, key, (m + s, n + s), frequencies, factor)
    for pair, (old, new) in enumerate(zip(before, after, strict=True)):
        turned = _S.expand(_S.expand_trig(new - old))
        shift = s * frequencies[pair]
        rest = _S.expand(turned.subs(_S.sin(shift) ** 2, 1 - _S.cos(shift) ** 2))
        if rest != 0:
            raise _not_proved(
                query, f"shifted by s, the product of pair {pair} differs by {_shortened(rest)}"
            )


def read_angle(cos: Any, sin: Any, position: Any) -> Angle | None:
    """Return the column that two elements of tables are, None if they are no rotation.

    Args:
        cos: Expression in ``position`` and symbols that are free of positions.
        sin: The same.
        position: The symbol of the row's own position.
    """
    factor, cosine = _factored(cos, position)
    other, sine = _factored(sin, position)
    if not isinstance(cosine, sympy.cos) or not isinstance(sine, sympy.sin):
        return None
    sign = 1 if factor == other else -1  # SymPy writes sin(-x) as -sin(x), and cos(-x) as cos(x)
    angle = _S.expand(cosine.args[0])
    if factor != sign * other or _S.expand(cast("Any", sine).args[0] - angle) != 0:
        return None
    frequency = angle.coeff(position, 1)
    phase = _S.expand(angle - frequency * position)
    if frequency == 0 or phase.has(position):
        return None
    return Angle(factor, sign * frequency, sign * phase)


def _factored(table: Any, position: Any) -> tuple[Any, Any]:
    return _S.sympify(table).as_independent(position, as_Add=False)


def _products(
    query: Rotary, key: Rotary, positions: tuple[Any, Any], frequencies: Sequence[Any], factor: Any
) -> list[Any]:
    """Return, for each pair, the sum over its two lanes of query times key."""
    rotated: list[Array] = []
    for op, name, position in zip((query, key), "qk", positions, strict=True):
        angles = [
            _S.expand(f * position) + phase
            for f, phase in zip(frequencies, _S.symbols(f"a:{_PAIRS}"), strict=True)
        ]
        x = np.array(_S.symbols(f"{name}:{2 * _PAIRS}"), object)
        cos = np.array([factor * _S.cos(angle) for angle in angles], object)
        sin = np.array([factor * _S.sin(angle) for angle in angles], object)
        (result,) = op.reference(x, cos, sin)
        rotated.append(result)
    q, k = rotated
    of_q, of_k = lanes_of(query, _PAIRS), lanes_of(key, _PAIRS)
    return [
        sum(q[i] * k[j] for i, j in zip(of_q.of_pair(pair), of_k.of_pair(pair), strict=True))
        for pair in range(_PAIRS)
    ]


def _not_proved(op: Rotary, reason: str) -> GraphError:
    return GraphError(
        code="rotary-not-proved",
        reason=f"{op.mnemonic}: {reason}",
        hint="scores of this operation depend on positions themselves; a draft layer that uses it "
        "needs its true positions",
    )


def _shortened(expression: Any) -> str:
    text = str(expression)
    return text if len(text) < 120 else f"{text[:117]}..."
