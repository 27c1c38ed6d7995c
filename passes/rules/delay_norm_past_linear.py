"""Normalise the result of a projection instead of its operand."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Cast, Constant, Linear, Multiply, ReduceMean, RmsNorm, Rsqrt
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, gain: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(RmsNorm(h.eps), x, gain), w)


def _rhs(b: GraphBuilder, h: Any, x: Value, gain: Value, w: Value) -> Value:
    wide = b.add(Cast(DType.F32), x)
    mean = b.add(ReduceMean((h.last,)), b.add(Multiply(), wide, wide))
    factor = b.add(Rsqrt(), b.add(Add(), mean, b.add(Constant(h.eps, DType.F32))))
    y = b.add(Cast(DType.F32), b.add(Linear(), x, b.add(Multiply(), w, gain)))
    return b.add(Cast(b.type_of(x).dtype), b.add(Multiply(), y, factor))


def _result_cannot_overflow(site: Site) -> bool:
    return site.type_of("x").dtype is not DType.F16


RULE = Rule(
    name="delay-norm-past-linear",
    identity="(x · r ⊙ g) Wᵀ  =  (x (W diag(g))ᵀ) · r, with r = (mean(x²) + eps)^-½ of the row",
    source="a matrix product is homogeneous in each row; Zhang and Sennrich, arXiv 1910.07467",
    operands={"x": "* k", "gain": "k", "w": "n k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"eps": 1e-5},
    when=(
        Precondition(
            "narrow-range",
            _result_cannot_overflow,
            "the projection of values that are not normed may exceed the range of f16",
        ),
    ),
)
