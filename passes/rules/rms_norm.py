"""Recognise the normalisation by the root mean square."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Divide,
    Multiply,
    Power,
    ReduceMean,
    RmsNorm,
    Rsqrt,
    Sqrt,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.read_elsewhere import INTERMEDIATE_IS_READ_ELSEWHERE
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling

_Square = Callable[[SideBuilder, Any, Value], Value]


def _power(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Power(), x, b.add(Constant(2.0, h.wide)))


def _product(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Multiply(), x, x)


def _normalized(b: SideBuilder, h: Any, x: Value, square: _Square, *, divided: bool) -> Value:
    mean = b.add(ReduceMean((h.last,)), square(b, h, x))
    shifted = b.add(Add(), mean, b.add(Constant(h.eps, h.wide)))
    if divided:
        return b.add(Divide(), x, b.add(Sqrt(), shifted))
    return b.add(Multiply(), x, b.add(Rsqrt(), shifted))


def _one_format(
    b: SideBuilder, h: Any, x: Value, g: Value, square: _Square, *, divided: bool
) -> Value:
    return b.add(Multiply(), _normalized(b, h, x, square, divided=divided), g)


def _gain_first(
    b: SideBuilder, h: Any, x: Value, g: Value, square: _Square, *, divided: bool
) -> Value:
    mean = b.add(ReduceMean((h.last,)), square(b, h, x))
    shifted = b.add(Add(), mean, b.add(Constant(h.eps, h.wide)))
    scaled = b.add(Multiply(), x, g)
    if divided:
        return b.add(Divide(), scaled, b.add(Sqrt(), shifted))
    return b.add(Multiply(), scaled, b.add(Rsqrt(), shifted))


def _gain_after_cast(
    b: SideBuilder, h: Any, x: Value, g: Value, square: _Square, *, divided: bool
) -> Value:
    y = _normalized(b, h, b.add(Cast(h.wide), x), square, divided=divided)
    return b.add(Multiply(), b.add(Cast(h.narrow), y), g)


def _gain_before_cast(
    b: SideBuilder, h: Any, x: Value, g: Value, square: _Square, *, divided: bool
) -> Value:
    y = _normalized(b, h, b.add(Cast(h.wide), x), square, divided=divided)
    return b.add(Cast(h.narrow), b.add(Multiply(), y, b.add(Cast(h.wide), g)))


def _rhs(b: GraphBuilder, h: Any, x: Value, g: Value) -> Value:
    return b.add(RmsNorm(h.eps), x, g)


def _eps_is_positive(site: Site) -> bool:
    return site.holes["eps"] > 0


def _computed_in_single_precision(site: Site) -> bool:
    narrow = site.holes.get("narrow", site.holes["wide"])
    return narrow.is_float and site.holes["wide"] in (DType.F32, DType.F64)


RULE = Rule(
    name="rms-norm",
    identity="x · (mean(x²) + eps)^-½ · g  =  rms_norm(x, g)",
    source="definition; Zhang and Sennrich, arXiv 1910.07467, eq. 4",
    operands={"x": "narrow: * k", "g": "narrow: k"},
    spellings=tuple(
        Spelling(partial(lhs, square=square, divided=divided))
        for lhs in (_one_format, _gain_first, _gain_after_cast, _gain_before_cast)
        for square in (_power, _product)
        for divided in (False, True)
    ),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"eps": 1e-5, "wide": DType.F32, "narrow": DType.F32},
    when=(
        Precondition(
            "eps-is-zero", _eps_is_positive, "eps is not positive: a zero row has no norm"
        ),
        Precondition(
            "mean-in-half-precision",
            _computed_in_single_precision,
            "the mean is taken in a format narrower than f32, which the operation would widen",
        ),
        INTERMEDIATE_IS_READ_ELSEWHERE,
    ),
)
