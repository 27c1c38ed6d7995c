"""Recognise the mean in a sum and the number of its terms."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Constant, Divide, ReduceMean, ReduceSum
from ascendfx.ir.size import product
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Divide(), b.add(ReduceSum(h.axes, h.keep), x), b.add(Constant(h.count, h.format)))


def _rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(ReduceMean(h.axes, h.keep), x)


def _counts_the_terms(site: Site) -> bool:
    shape = site.type_of("x").shape
    return product(shape[axis] for axis in site.holes["axes"]) == site.holes["count"]


def _is_float(site: Site) -> bool:
    return site.type_of("x").dtype.is_float


RULE = Rule(
    name="mean-of-sum",
    identity="(Σᵢ xᵢ) / n  =  mean(x), n the number of terms",
    source="definition",
    operands={"x": "format: * k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {
        "axes": (len(sizes["lead"]),),
        "keep": True,
        "count": float(sizes["k"]),
        "format": DType.F32,
    },
    when=(
        Precondition("integers", _is_float, "a quotient of integers is rounded down"),
        Precondition(
            "another-divisor", _counts_the_terms, "the divisor is not the number of terms"
        ),
    ),
)
