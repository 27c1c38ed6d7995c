"""Cut the weight of a per-head projection instead of its result."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, Slice
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Slice(2, h.start, h.stop), b.add(HeadLinear(), x, w))


def _rhs(b: GraphBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(HeadLinear(), x, b.add(Slice(1, h.start, h.stop), w))


RULE = Rule(
    name="slice-head-projection",
    identity="(x · W_hᵀ)[a:b]  =  x · (W_h[a:b])ᵀ",
    source="a row of the weight makes an element of the result",
    operands={"x": "t 1 k", "w": "h n k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"start": sizes["n"] - 1, "stop": sizes["n"]},
)
