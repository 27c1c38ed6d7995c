"""Leave out a scale in front of a norm, which divides it out but for its epsilon."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Constant, Multiply, RmsNorm
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.normal_numbers import is_normal_f32
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, gain: Value) -> Value:
    scaled = b.add(Multiply(), x, b.add(Constant(h.scale, h.format)))
    return b.add(RmsNorm(h.eps), scaled, gain)


def _rhs(b: GraphBuilder, h: Any, x: Value, gain: Value) -> Value:
    return b.add(RmsNorm(h.eps / h.scale**2), x, gain)


def _scale_is_positive(site: Site) -> bool:
    return site.holes["scale"] > 0


def _epsilon_stays_a_number(site: Site) -> bool:
    square = site.holes["scale"] ** 2
    return is_normal_f32(square) and is_normal_f32(site.holes["eps"] / square)


RULE = Rule(
    name="norm-of-scaled",
    identity="norm(s · x; eps)  =  norm(x; eps / s²), s > 0",
    source="Zhang and Sennrich, arXiv 1910.07467, section 4: re-scaling invariance",
    operands={"x": "format: * k", "gain": "format: k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"eps": 1e-5, "scale": 0.5 * sizes["k"], "format": DType.F32},
    when=(
        Precondition(
            "scale-is-not-positive",
            _scale_is_positive,
            "a scale that is zero or negative is not divided out: zero stays zero, signs turn",
        ),
        Precondition(
            "epsilon-vanishes",
            _epsilon_stays_a_number,
            "the epsilon of the values without scale is no normal number of f32",
        ),
    ),
)
