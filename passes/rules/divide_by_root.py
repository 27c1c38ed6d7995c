"""Multiply by a reciprocal instead of dividing."""

import math
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Constant, Divide, Multiply, Power, Reciprocal, Rsqrt, Sqrt
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.known_sign import is_nonnegative
from ascendfx.passes.normal_numbers import is_normal_f32
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling, Values


def _is_float(site: Site) -> bool:
    return site.type_of("x").dtype.is_float


def _reciprocal_lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Reciprocal(), b.add(Sqrt(), x))


def _one_over_lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Divide(), b.add(Constant(1.0, h.format)), b.add(Sqrt(), x))


def _rsqrt(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Rsqrt(), x)


RECIPROCAL = Rule(
    name="reciprocal-of-sqrt",
    identity="1 / √x  =  x^-½",
    source="definition",
    operands={"x": "format: * k"},
    spellings=(Spelling(_reciprocal_lhs), Spelling(_one_over_lhs)),
    rhs=_rsqrt,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"format": DType.F32},
)


def _power_lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Power(), x, b.add(Constant(-0.5, h.format)))


def _operand_is_nonnegative(site: Site) -> bool:
    return is_nonnegative(site.graph, site.bound["x"])


POWER = Rule(
    name="power-as-rsqrt",
    identity="x^-½  =  1 / √x, x ≥ 0",
    source="definition; a power of -0 is +∞, its reciprocal root -∞",
    operands={"x": "format: * k"},
    spellings=(Spelling(_power_lhs),),
    rhs=_rsqrt,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"format": DType.F32},
    values={"x": Values(low=0.0, ensured_by="sign-unknown")},
    when=(
        Precondition("integers", _is_float, "roots are taken of floats only"),
        Precondition(
            "sign-unknown", _operand_is_nonnegative, "the operand is not known to be nonnegative"
        ),
    ),
)


def _quotient(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Divide(), x, b.add(Sqrt(), y))


def _product(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Multiply(), x, b.add(Rsqrt(), y))


DIVIDE = Rule(
    name="divide-by-sqrt",
    identity="x / √y  =  x · y^-½",
    source="definition",
    operands={"x": "* k", "y": "* j"},
    spellings=(Spelling(_quotient),),
    rhs=_product,
    fidelity=Fidelity.REAL,
)


def _by_constant(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Divide(), x, b.add(Constant(h.divisor, h.format)))


def _by_reciprocal(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Multiply(), x, b.add(Constant(1 / h.divisor, h.format)))


def _reciprocal_is_exact(site: Site) -> bool:
    divisor = site.holes["divisor"]
    power = divisor != 0 and abs(math.frexp(divisor)[0]) == 0.5
    return power and is_normal_f32(divisor) and is_normal_f32(1 / divisor)


POWER_OF_TWO = Rule(
    name="divide-by-power-of-two",
    identity="x / 2ⁿ  =  x · 2⁻ⁿ",
    source="IEEE 754: a power of two has an exact reciprocal",
    operands={"x": "format: * k"},
    spellings=(Spelling(_by_constant),),
    rhs=_by_reciprocal,
    fidelity=Fidelity.BITWISE,
    holes=lambda _: {"divisor": 4.0, "format": DType.F32},
    when=(
        Precondition("integers", _is_float, "a quotient of integers is rounded down"),
        Precondition(
            "reciprocal-is-rounded",
            _reciprocal_is_exact,
            "the divisor is no power of two: its reciprocal is rounded, and so is the product",
        ),
    ),
)
