"""Multiply two scales now instead of the values twice."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Constant, Multiply
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.normal_numbers import SCALE_OUT_OF_RANGE
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    once = b.add(Multiply(), x, b.add(Constant(h.scale, h.format)))
    return b.add(Multiply(), once, b.add(Constant(h.factor, h.format)))


def _rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Multiply(), x, b.add(Constant(h.scale * h.factor, h.format)))


def _is_float(site: Site) -> bool:
    return site.type_of("x").dtype.is_float


RULE = Rule(
    name="merge-scales",
    identity="(x · s) · t  =  x · (s · t)",
    source="associativity of the product",
    operands={"x": "format: * k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"scale": 0.75, "factor": -1.5, "format": DType.F32},
    when=(
        Precondition("integers", _is_float, "a product of integers may leave their range"),
        SCALE_OUT_OF_RANGE,
    ),
)
