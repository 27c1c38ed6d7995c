"""Give the requests their axis before a per-head projection instead of after it."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, Reshape
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Reshape((h.q, h.s, h.h, h.n)), b.add(HeadLinear(), x, w))


def _rhs(b: GraphBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(HeadLinear(), b.add(Reshape((h.q, h.s, 1, h.k)), x), w)


RULE = Rule(
    name="reshape-head-projection",
    identity="split_tokens(head_linear(x, W))  =  head_linear(split_tokens(x), W)",
    source="a projection of the last axis does not look at the leading ones",
    operands={"x": "t 1 k", "w": "h n k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"q": 1, "s": sizes["t"]},
)
