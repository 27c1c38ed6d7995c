"""Multiply the scores of attention instead of the query."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Attention, Constant, Multiply, RaggedAttention
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.normal_numbers import SCALE_OUT_OF_RANGE
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling

_Attend = Callable[[Any, Any], Attention | RaggedAttention]
"""``attend(holes, scale)``"""


def _whole(h: Any, scale: Any) -> Attention:
    return Attention(parts=1, scale=scale, causal=h.causal)


def _ragged(h: Any, scale: Any, *, parts: int) -> RaggedAttention:
    return RaggedAttention(parts, scale)


def _lhs(b: SideBuilder, h: Any, *operands: Value, attend: _Attend) -> Value:
    factor = b.add(Constant(h.factor, h.format))
    op = attend(h, h.scale)
    roles = op.roles(operands)
    scaled = tuple(b.add(Multiply(), q, factor) for q in roles.queries)
    return b.add(op, *roles._replace(queries=scaled).operands)


def _rhs(b: GraphBuilder, h: Any, *operands: Value, attend: _Attend) -> Value:
    return b.add(attend(h, h.scale * h.factor), *operands)


def _holes(sizes: Mapping[str, Any]) -> dict[str, Any]:
    causal = sizes.get("t") == sizes["s"]
    return {"scale": 0.5, "factor": 1.5, "format": DType.F32, "causal": causal}


def _rule(name: str, attend: _Attend, operands: dict[str, str]) -> Rule:
    return Rule(
        name=f"scale-into-{name}",
        identity="(s · q) · k · scale  =  q · k · (s · scale)",
        source="the inner product is linear; Vaswani et al., arXiv 1706.03762, section 3.2.1",
        operands=operands,
        spellings=(Spelling(partial(_lhs, attend=attend)),),
        rhs=partial(_rhs, attend=attend),
        fidelity=Fidelity.REAL,
        holes=_holes,
        below={"positions": "s", "row_request": "b"} if "positions" in operands else {},
        proof=Proof.EXHAUSTIVE if "positions" in operands else Proof.SYMBOLIC,
        when=(SCALE_OUT_OF_RANGE,),
    )


_ROWS = {"positions": "i32: r", "row_request": "i32: r"}

ATTENTION = _rule(
    "attention",
    _whole,
    {"q": "format: b t h d", "k": "format: b s g d", "v": "format: b s f e"},
)
RAGGED = _rule(
    "ragged-attention-1",
    partial(_ragged, parts=1),
    {"q": "format: r h d", "k": "format: b s g d", "v": "format: b s f e", **_ROWS},
)
RAGGED_OF_TWO_PARTS = _rule(
    "ragged-attention-2",
    partial(_ragged, parts=2),
    {
        "q1": "format: r h d",
        "q2": "format: r h c",
        "k1": "format: b s g d",
        "k2": "format: b s i c",
        "v": "format: b s f e",
        **_ROWS,
    },
)
