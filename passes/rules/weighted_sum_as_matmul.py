"""Let the matrix unit add up the weighted results of the heads."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Matmul, Multiply, ReduceSum, Reshape
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, y: Value, weights: Value) -> Value:
    return b.add(ReduceSum((1,), keep=False), b.add(Multiply(), y, weights))


def _rhs(b: GraphBuilder, h: Any, y: Value, weights: Value) -> Value:
    row = b.add(Reshape((h.r, 1, h.h)), weights)
    return b.add(Reshape((h.r, h.t)), b.add(Matmul(), row, y))


RULE = Rule(
    name="weighted-sum-as-matmul",
    identity="Σ_h w_h y_h  =  wᵀ Y",
    source="definition; the head reduction of the DeepSeek-V3.2 indexer as a second product",
    operands={"y": "r h t", "weights": "r h 1"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
)
