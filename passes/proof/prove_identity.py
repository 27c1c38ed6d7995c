"""Show that both sides of a rule are equal for all values of their operands.

Float operands are arrays of `Real`, integer operands take all their values in turn, and what is
compared is ordered in every possible way (`order_cases`). In each case every element of
``lhs - rhs`` must vanish, given the equalities that the case implies. Identities are shown where
both sides are defined: a symbol by which a side divides is not zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, cast

import numpy as np
import sympy

from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.proof.order_cases import Case, each_case
from ascendfx.passes.proof.proof_sizes import ascending_sizes, covering_sizes
from ascendfx.passes.proof.real import Real, exactly
from ascendfx.passes.rule import Proof, Rule, Spelling, Values
from ascendfx.passes.rule_sides import holes_of, letters_of, operand_types, side_of

CASES = 500
"""Cases after which no larger sizes are tried."""

_S = cast("Any", sympy)  # SymPy is partly typed


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the sides of a rule are not equal.

    Attributes:
        holes: Sizes and captured attributes.
        integers: Values of the integer operands.
        element: Number of the result and place in it.
        sides: What stands there, left and right.
        case: The order of what was compared; empty if nothing was.
        example: Values of symbols in this case, where the case is about symbols alone.
    """

    holes: Mapping[str, Any]
    integers: Mapping[str, Array]
    element: tuple[int, ...]
    sides: tuple[Any, Any]
    case: str = ""
    example: Mapping[str, str] | None = None

    def __str__(self) -> str:
        left, right = self.sides
        rest = f"{left} and {right}"
        if not isinstance(left, int | np.integer | bool | np.bool_):
            rest = f"the difference is {_S.expand(exactly(left) - exactly(right))}"
        integers = "".join(f", {name} = {a.tolist()}" for name, a in self.integers.items())
        where = f" where {self.case}" if self.case else ""
        example = ", ".join(f"{name} = {value}" for name, value in (self.example or {}).items())
        values = f", for example {example}" if example else ""
        return f"result {self.element[0]}{list(self.element[1:])}{integers}{where}{values}: {rest}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was found out about an identity.

    Attributes:
        kind: The kind of proof that the sides call for.
        cases: How many cases were looked at, over all sizes and values of integers.
        difference: Where the sides differ, if they do.
        gap: Why the cases do not cover enough, if they do not.
    """

    kind: Proof
    cases: int
    difference: Difference | None = None
    gap: str = ""


def prove_identity(rule: Rule, spelling: Spelling) -> Evidence:
    """Look at all values of the operands, for small sizes."""
    floats = [kind.dtype.is_float for kind in _some_types(rule, spelling)]
    kind = Proof.SYMBOLIC if all(floats) else Proof.EXHAUSTIVE
    count = 0
    for sizes in covering_sizes(rule, spelling):
        for case, difference in _looked_at(rule, spelling, sizes):
            count += 1
            if case.asked:
                return _prove_by_cases(rule, spelling)
            if difference:
                return Evidence(kind, count, difference)
    return Evidence(kind, count, gap="" if count else "no sizes are small enough")


def _prove_by_cases(rule: Rule, spelling: Spelling) -> Evidence:
    """Go from small sizes to larger ones until there were enough cases."""
    open_letters = set(letters_of(rule))
    count = 0
    for sizes in ascending_sizes(rule, spelling):
        for _, difference in _looked_at(rule, spelling, sizes):
            count += 1
            if difference:
                return Evidence(Proof.CASES, count, difference)
            if count == CASES:
                many = f"{CASES} cases are not enough to vary {sorted(open_letters)}"
                return Evidence(Proof.CASES, count, gap=many if open_letters else "")
        open_letters -= {each for each in open_letters if sizes[each] > rule.minimum.get(each, 1)}
    return Evidence(Proof.CASES, count)


def _some_types(rule: Rule, spelling: Spelling) -> list[TensorType]:
    sizes: dict[str, Any] = {**dict.fromkeys(letters_of(rule), 2), "lead": ()}
    return list(operand_types(rule, holes_of(rule, spelling, sizes)).values())


def _looked_at(
    rule: Rule, spelling: Spelling, sizes: Mapping[str, Any]
) -> Iterator[tuple[Case, Difference | None]]:
    holes = holes_of(rule, spelling, sizes)
    for integers in _integers(rule, holes):
        yield from _in_each_case(rule, spelling, holes, integers)


def _in_each_case(
    rule: Rule, spelling: Spelling, holes: Mapping[str, Any], integers: Mapping[str, Array]
) -> Iterator[tuple[Case, Difference | None]]:
    graphs = side_of(rule, spelling.lhs, holes), side_of(rule, rule.rhs, holes)

    def run(case: Case) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        operands = dict(integers) | _symbols_of(rule, holes, case)
        return interpret(graphs[0], operands), interpret(graphs[1], operands)

    for case, sides in each_case(run):
        found = _first_difference(case, sides)
        if found is None:
            yield case, None
            continue
        element, values = found
        example = case.example()
        shown = {str(k): str(v) for k, v in (example or {}).items()}
        yield case, Difference(holes, integers, element, values, str(case), shown)


def _first_difference(
    case: Case, sides: tuple[tuple[Array, ...], tuple[Array, ...]]
) -> tuple[tuple[int, ...], tuple[Any, Any]] | None:
    equalities: list[Any] | None = None
    for i, (left, right) in enumerate(zip(*sides, strict=True)):
        for place in np.ndindex(left.shape):
            a, c = left[place], right[place]
            if _equal(a, c):
                continue
            equalities = _solved(case.equalities()) if equalities is None else equalities
            if not _equal(_replaced(a, equalities), _replaced(c, equalities)):
                return (i, *place), (a, c)
    return None


def _symbols_of(rule: Rule, holes: Mapping[str, Any], case: Case) -> dict[str, Array]:
    symbols: dict[str, Array] = {}
    for name, kind in operand_types(rule, holes).items():
        if kind.dtype.is_float:
            shape = tuple(bind_size(d, {}) for d in kind.shape)
            values = rule.values.get(name, Values())
            made = _reflection if name in rule.orthogonal else _symbols
            symbols[name] = made(name, shape, values, case)
    return symbols


def _reflection(name: str, shape: tuple[int, ...], values: Values, case: Case) -> Array:
    """Return ``I - 2 v vᵀ / (vᵀ v)``, the reflection that turns ``v`` around."""
    v = [each.expression for each in _symbols(name, shape[:1], values, case)]
    square = sum(each * each for each in v)
    result = np.empty(shape, object)
    for i, j in np.ndindex(shape):
        result[i, j] = Real(_S.Integer(int(i == j)) - 2 * v[i] * v[j] / square, case)
    return result


def _symbols(name: str, shape: tuple[int, ...], values: Values, case: Case) -> Array:
    result = np.empty(shape, object)
    for place in np.ndindex(shape):
        index = "_".join(map(str, (name, *place)))
        result[place] = Real(_symbol(index, values.low >= 0, values.low > 0), case)
    return result


@lru_cache(maxsize=10_000)
def _symbol(name: str, nonnegative: bool, positive: bool) -> Any:  # noqa: FBT001  # a cache key
    if positive:
        return _S.Symbol(name, positive=True)
    return _S.Symbol(name, nonnegative=True) if nonnegative else _S.Symbol(name, real=True)


def _integers(rule: Rule, holes: Mapping[str, Any]) -> Iterator[dict[str, Array]]:
    """Yield every assignment of values to the integer and truth operands."""
    domains = integer_domains(rule, holes)
    names = list(domains)
    counts = [size for name in names for size in [domains[name][1]] * domains[name][2]]
    for values in product(*map(range, counts)):
        rest = list(values)
        result: dict[str, Array] = {}
        for name in names:
            shape, _, elements = domains[name]
            flat, rest = rest[:elements], rest[elements:]
            kind = bool if domains[name][1] == 2 and name not in rule.below else np.int64
            result[name] = np.array(flat, kind).reshape(shape)
        yield result


def integer_domains(
    rule: Rule, holes: Mapping[str, Any]
) -> dict[str, tuple[tuple[int, ...], int, int]]:
    """Return shape, number of values and number of elements of each operand that is no float."""
    domains: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for name, kind in operand_types(rule, holes).items():
        if not kind.dtype.is_float:
            shape = tuple(bind_size(d, {}) for d in kind.shape)
            below = holes[rule.below[name]] if name in rule.below else 2
            domains[name] = (shape, below, int(np.prod(shape)))
    return domains


def _equal(a: Any, c: Any) -> bool:
    if isinstance(a, Real) or isinstance(c, Real):
        return _vanishes(exactly(a), exactly(c))
    return bool(a == c) or bool(np.isnan(a) and np.isnan(c))


@lru_cache(maxsize=100_000)
def _vanishes(a: Any, c: Any) -> bool:
    if a == c:
        return True
    if a.has(_S.oo, -_S.oo, _S.nan) or c.has(_S.oo, -_S.oo, _S.nan):
        return False
    difference = a - c
    return bool(
        _S.expand(difference) == 0
        or _S.expand(_S.fraction(_S.together(difference))[0]) == 0
        or _S.simplify(difference) == 0
    )


def _solved(equalities: list[Any]) -> list[tuple[Any, Any]]:
    """Return replacements of symbols that make every equality hold, where one is linear in it."""
    replacements: list[tuple[Any, Any]] = []
    for each in equalities:
        rest = _S.expand(each.subs(replacements))
        for symbol in sorted(rest.free_symbols, key=str):
            slope = rest.diff(symbol)
            if slope.is_number and slope != 0:
                replacements.append((symbol, _S.expand(symbol - rest / slope)))
                break
    return replacements


def _replaced(value: Any, replacements: list[tuple[Any, Any]]) -> Any:
    if not isinstance(value, Real):
        return value
    expression = value.expression
    for pair in replacements:
        expression = expression.subs(*pair)
    return Real(expression, value.case)
