"""Scale a weight once instead of the result of its projection in every step."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Linear, Multiply, Param, Reshape
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, w: Value, scale: Value) -> Value:
    return b.add(Multiply(), b.add(Linear(), x, w), scale)


def _one_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, scale: Value) -> Value:
    return b.add(Linear(), x, b.add(Multiply(), w, scale))


def _each_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, scale: Value) -> Value:
    column = b.add(Reshape((h.n, 1)), scale)
    return b.add(Linear(), x, b.add(Multiply(), w, column))


def _weight_is_a_parameter(site: Site) -> bool:
    return isinstance(site.graph.op_of(site.bound["w"]), Param)


_WHEN = (
    Precondition(
        "weight-is-no-parameter",
        _weight_is_a_parameter,
        "the weight is no parameter, so that it would be scaled in every step",
    ),
)

ONE_SCALE = Rule(
    name="sink-scale-into-weight",
    identity="s · (x Wᵀ)  =  x (s · W)ᵀ",
    source="a matrix product is homogeneous in both factors",
    operands={"x": "* k", "w": "n k", "scale": ""},
    spellings=(Spelling(_lhs),),
    rhs=_one_rhs,
    fidelity=Fidelity.REAL,
    when=_WHEN,
)

SCALE_PER_CHANNEL = Rule(
    name="sink-channel-scale-into-weight",
    identity="(x Wᵀ) diag(s)  =  x (diag(s) W)ᵀ",
    source="diagonal matrices are associative, too; Xiao et al., arXiv 2211.10438, eq. 2",
    operands={"x": "* k", "w": "n k", "scale": "n"},
    spellings=(Spelling(_lhs),),
    rhs=_each_rhs,
    fidelity=Fidelity.REAL,
    when=_WHEN,
)
