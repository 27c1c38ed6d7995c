"""Convert before an operation that only compares or turns signs: rounding keeps the order."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Cast, Maximum, Minimum, Negate, Relu, Select
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Growth, Precondition, Proof, Rule, SideBuilder, Site, Spelling

_Choose = Callable[..., Value]
"""``choose(builder, *values, *others)``: each result is one of the values, zero or a negative."""


_GROWTH = Growth(math.inf, "both sides have the same bits; a bound does not see monotonicity")


def _lhs(b: SideBuilder, h: Any, *operands: Value, choose: _Choose, values: int) -> Value:
    return b.add(Cast(h.format), choose(b, *operands))


def _rhs(b: SideBuilder, h: Any, *operands: Value, choose: _Choose, values: int) -> Value:
    converted = (b.add(Cast(h.format), each) for each in operands[:values])
    return choose(b, *converted, *operands[values:])


def _relu(b: SideBuilder, x: Value) -> Value:
    return b.add(Relu(), x)


def _negate(b: SideBuilder, x: Value) -> Value:
    return b.add(Negate(), x)


def _maximum(b: SideBuilder, x: Value, y: Value) -> Value:
    return b.add(Maximum(), x, y)


def _minimum(b: SideBuilder, x: Value, y: Value) -> Value:
    return b.add(Minimum(), x, y)


def _select(b: SideBuilder, x: Value, y: Value, condition: Value) -> Value:
    return b.add(Select(), condition, x, y)


def _both_are_floats(site: Site) -> bool:
    return site.holes["format"].is_float and site.type_of("x").dtype.is_float


def _rule(
    name: str,
    choose: _Choose,
    operands: Mapping[str, str],
    *,
    proof: Proof = Proof.CASES,
    fidelity: Fidelity = Fidelity.BITWISE,
) -> Rule:
    """Return one rule.

    What orders is not bitwise: a number that rounds to ``-0.0`` is below zero before, not after.
    """
    return Rule(
        name=f"cast-before-{name}",
        identity="round(f(x, ..))  =  f(round(x), ..), f monotonic and odd or without arithmetic",
        source="IEEE 754: rounding to nearest is monotonic and odd",
        operands=operands,
        spellings=(
            Spelling(partial(_lhs, choose=choose, values=sum(n in "xy" for n in operands))),
        ),
        rhs=partial(_rhs, choose=choose, values=sum(n in "xy" for n in operands)),
        fidelity=fidelity,
        holes=lambda _: {"format": DType.BF16, "two": 2},
        below={"condition": "two"} if "condition" in operands else {},
        proof=proof,
        growth=_GROWTH,
        when=(
            Precondition(
                "not-float", _both_are_floats, "integers wrap around and truth values have no order"
            ),
        ),
    )


RULES: tuple[Rule, ...] = (
    _rule("relu", _relu, {"x": "* k"}, fidelity=Fidelity.REAL),
    _rule("negate", _negate, {"x": "* k"}, proof=Proof.SYMBOLIC),
    _rule("maximum", _maximum, {"x": "* k", "y": "* j"}, fidelity=Fidelity.REAL),
    _rule("minimum", _minimum, {"x": "* k", "y": "* j"}, fidelity=Fidelity.REAL),
    _rule(
        "select",
        _select,
        {"x": "* k", "y": "* j", "condition": "bool: * i"},
        proof=Proof.EXHAUSTIVE,
    ),
)
