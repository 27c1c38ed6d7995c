"""Project the attended latent, one row, instead of the values of the whole context."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, RaggedAttention
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling, Values

_SCORED = Values(
    low=-1.0,
    high=1.0,
    because="an error of the weights pⱼ, which grows with the scores, acts on W cⱼ in both forms; "
    "the bound takes it to be independent of what cancels in W cⱼ",
)


def _lhs(b: SideBuilder, h: Any, *operands: Value, parts: int) -> Value:
    latent, w, *others = operands
    return _attend(b, h, b.add(HeadLinear(), latent, w), others, parts)


def _rhs(b: GraphBuilder, h: Any, *operands: Value, parts: int) -> Value:
    latent, w, *others = operands
    return b.add(HeadLinear(), _attend(b, h, latent, others, parts), w)


def _attend(b: SideBuilder, h: Any, v: Value, others: Sequence[Value], parts: int) -> Value:
    *scored, positions, row_request = others
    return b.add(RaggedAttention(parts, h.scale), *scored, v, positions, row_request)


def _rule(parts: int) -> Rule:
    scored = {"q1": "r h d", "k1": "b s g d"}
    if parts == 2:
        scored = {"q1": "r h d", "q2": "r h e", "k1": "b s g d", "k2": "b s f e"}
    return Rule(
        name=f"absorb-value-projection-{parts}",
        identity="Σⱼ pⱼ (W cⱼ)  =  W (Σⱼ pⱼ cⱼ), for every head",
        source="DeepSeek-V2, arXiv 2405.04434, section 2.1.2: W_UV is absorbed into W_O",
        operands={
            "latent": "b s 1 c",
            "w": "h n c",
            **scored,
            "positions": "i32: r",
            "row_request": "i32: r",
        },
        spellings=(Spelling(partial(_lhs, parts=parts)),),
        rhs=partial(_rhs, parts=parts),
        fidelity=Fidelity.REAL,
        holes=lambda _: {"scale": 0.5},
        below={"positions": "s", "row_request": "b"},
        proof=Proof.EXHAUSTIVE,
        values=dict.fromkeys(scored, _SCORED),
    )


ABSORB_VALUE_PROJECTION = _rule(1)
ABSORB_VALUE_PROJECTION_OF_TWO_PARTS = _rule(2)
