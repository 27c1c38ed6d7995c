"""Recognise the softmax in exponentials and their sum."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Divide, Exp, ReduceMax, ReduceSum, Softmax, Subtract
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    weights = b.add(Exp(), b.add(Subtract(), x, b.add(ReduceMax((h.axis,)), x)))
    return b.add(Divide(), weights, b.add(ReduceSum((h.axis,)), weights))


def _rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Softmax(h.axis), x)


RULE = Rule(
    name="softmax-of-exponentials",
    identity="e^(x - max x) / Σ e^(x - max x)  =  softmax(x)",
    source="definition; Vaswani et al., arXiv 1706.03762, section 3.2.1",
    operands={"x": "* k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"axis": len(sizes["lead"])},
    proof=Proof.CASES,
)
