"""Project the query to the space of the latent at once, without making heads in between."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, Linear, Matmul, Reshape
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, w: Value, absorbed: Value) -> Value:
    heads = b.add(Reshape((h.r, h.h, h.n)), b.add(Linear(), x, w))
    return b.add(HeadLinear(), heads, absorbed)


def _rhs(b: GraphBuilder, h: Any, x: Value, w: Value, absorbed: Value) -> Value:
    per_head = b.add(Reshape((h.h, h.n, h.k)), w)
    product = b.add(Reshape((h.h * h.m, h.k)), b.add(Matmul(), absorbed, per_head))
    return b.add(Reshape((h.r, h.h, h.m)), b.add(Linear(), x, product))


RULE = Rule(
    name="absorb-into-query-projection",
    identity="(x W_hᵀ) A_hᵀ  =  x (A_h W_h)ᵀ, for every head h of one projection",
    source="DeepSeek-V2, arXiv 2405.04434, section 2.1.2: W_UK is absorbed into W_UQ",
    operands={"x": "r k", "w": "h*n k", "absorbed": "h m n"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
)
