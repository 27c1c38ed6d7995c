"""Make one projection per head of two that follow each other."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, Matmul
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, a: Value, c: Value) -> Value:
    return b.add(HeadLinear(), b.add(HeadLinear(), x, a), c)


def _rhs(b: GraphBuilder, h: Any, x: Value, a: Value, c: Value) -> Value:
    return b.add(HeadLinear(), x, b.add(Matmul(), c, a))


RULE = Rule(
    name="compose-head-linears",
    identity="(x A_hᵀ) B_hᵀ  =  x (B_h A_h)ᵀ, for every head",
    source="associativity of the matrix product",
    operands={"x": "* g k", "a": "h m k", "c": "h n m"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
)
