"""Split the contraction of attention where both sides are joined from parts."""

from collections.abc import Mapping
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Attention, Concat
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_OPERANDS = {
    "q1": "b t g*n d",
    "q2": "b t g*n e",
    "k1": "b s g d",
    "k2": "b s g e",
    "v": "b s g w",
}


def _lhs(b: SideBuilder, h: Any, *operands: Value) -> Value:
    q1, q2, k1, k2, v, *mask = operands
    q = b.add(Concat(3), q1, q2)
    k = b.add(Concat(3), k1, k2)
    op = Attention(parts=1, scale=h.scale, causal=h.causal, masked=bool(mask))
    return b.add(op, q, k, v, *mask)


def _rhs(b: GraphBuilder, h: Any, *operands: Value) -> Value:
    op = Attention(parts=2, scale=h.scale, causal=h.causal, masked=len(operands) > len(_OPERANDS))
    return b.add(op, *operands)


def _rule(name: str, operands: dict[str, str]) -> Rule:
    return Rule(
        name=name,
        identity="[q₁|q₂] · [k₁|k₂]  =  q₁ · k₁ + q₂ · k₂, where both are cut at the same place",
        source="inner product of block vectors",
        operands=operands,
        spellings=(Spelling(_lhs),),
        rhs=_rhs,
        fidelity=Fidelity.REAL,
        holes=_holes,
    )


def _holes(sizes: Mapping[str, Any]) -> dict[str, Any]:
    return {"scale": 0.5, "causal": False, "lead": (1, 1, sizes["t"])}


ATTENTION_PARTS = _rule("attention-parts", _OPERANDS)
MASKED_ATTENTION_PARTS = _rule("masked-attention-parts", {**_OPERANDS, "mask": "* s"})
