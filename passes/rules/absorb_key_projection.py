"""Multiply the query, one row, instead of the keys of the whole context."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, RaggedAttention, Transpose
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, *operands: Value, parts: int) -> Value:
    latent, w, q, others = _named(operands, parts)
    key = b.add(HeadLinear(), latent, w)
    return _attend(b, h, q, key, others, parts)


def _rhs(b: GraphBuilder, h: Any, *operands: Value, parts: int) -> Value:
    latent, w, q, others = _named(operands, parts)
    absorbed = b.add(HeadLinear(), q, b.add(Transpose((0, 2, 1)), w))
    return _attend(b, h, absorbed, latent, others, parts)


def _named(operands: Sequence[Value], parts: int) -> tuple[Value, Value, Value, tuple[Value, ...]]:
    q, latent, w, *others = operands
    assert len(others) == 2 * (parts - 1) + 3, "declared with the rule"  # noqa: S101
    return latent, w, q, tuple(others)


def _attend(
    b: SideBuilder, h: Any, q: Value, key: Value, others: Sequence[Value], parts: int
) -> Value:
    queries, keys, rest = others[: parts - 1], others[parts - 1 : 2 * parts - 2], others[-3:]
    return b.add(RaggedAttention(parts, h.scale), q, *queries, key, *keys, *rest)


def _rule(parts: int) -> Rule:
    extra = {"q2": "r h e", "k2": "b s g e"} if parts == 2 else {}
    return Rule(
        name=f"absorb-key-projection-{parts}",
        identity="q · (W c)  =  (Wᵀ q) · c, for every head",
        source="DeepSeek-V2, arXiv 2405.04434, section 2.1.2: W_UK is absorbed into W_UQ",
        operands={
            "q": "r h n",
            "latent": "b s 1 c",
            "w": "h n c",
            **extra,
            "v": "b s f d",
            "positions": "i32: r",
            "row_request": "i32: r",
        },
        spellings=(Spelling(partial(_lhs, parts=parts)),),
        rhs=partial(_rhs, parts=parts),
        fidelity=Fidelity.REAL,
        holes=lambda _: {"scale": 0.5},
        below={"positions": "s", "row_request": "b"},
        proof=Proof.EXHAUSTIVE,
    )


ABSORB_KEY_PROJECTION = _rule(1)
ABSORB_KEY_PROJECTION_OF_TWO_PARTS = _rule(2)
