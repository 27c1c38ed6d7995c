"""Scale what the rectifier leaves instead of what it sees."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Constant, Multiply, Relu
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.known_sign import is_nonnegative
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling, Values

_SOURCE = "positive homogeneity; DeepSeek-V3.2 indexer, eq. 1: I = Σ_h w_h ReLU(q_h · k)"


def _constant_lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Relu(), b.add(Multiply(), x, b.add(Constant(h.scale, h.format))))


def _constant_rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Multiply(), b.add(Relu(), x), b.add(Constant(h.scale, h.format)))


def _scale_is_positive(site: Site) -> bool:
    return 0 < site.holes["scale"] < float("inf")


BY_CONSTANT = Rule(
    name="relu-of-scaled",
    identity="relu(s · x)  =  s · relu(x), s > 0",
    source=_SOURCE,
    operands={"x": "format: * k"},
    spellings=(Spelling(_constant_lhs),),
    rhs=_constant_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"scale": 1.5, "format": DType.F32},
    proof=Proof.CASES,
    when=(
        Precondition(
            "scale-is-not-positive",
            _scale_is_positive,
            "the scale is not a positive number: the rectifier would keep the other side",
        ),
    ),
)


def _lhs(b: SideBuilder, h: Any, x: Value, scale: Value) -> Value:
    return b.add(Relu(), b.add(Multiply(), x, scale))


def _rhs(b: GraphBuilder, h: Any, x: Value, scale: Value) -> Value:
    return b.add(Multiply(), b.add(Relu(), x), scale)


def _scale_is_nonnegative(site: Site) -> bool:
    return is_nonnegative(site.graph, site.bound["scale"])


BY_NONNEGATIVE = Rule(
    name="relu-of-nonnegative-scaled",
    identity="relu(s · x)  =  s · relu(x), every s ≥ 0",
    source=_SOURCE,
    operands={"x": "* k", "scale": "* j"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    proof=Proof.CASES,
    values={"scale": Values(low=0.0, ensured_by="sign-unknown")},
    when=(
        Precondition(
            "sign-unknown", _scale_is_nonnegative, "the scale is not known to be nonnegative"
        ),
    ),
)
