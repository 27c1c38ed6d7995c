"""Leave the pairs of rotated queries and keys in the order that costs nothing."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Attention, Rotary
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_ROTATED = {
    "q": "b t h 2*n",
    "k": "b s g 2*n",
    "q_cos": "b t 1 n",
    "q_sin": "b t 1 n",
    "k_cos": "b s 1 n",
    "k_sin": "b s 1 n",
}


def _side(b: SideBuilder, h: Any, *operands: Value, interleaved: bool) -> Value:
    q, k, q_cos, q_sin, k_cos, k_sin, v, *plain = operands
    query = b.add(Rotary(interleaved_in=h.q_in, interleaved_out=interleaved), q, q_cos, q_sin)
    key = b.add(Rotary(interleaved_in=h.k_in, interleaved_out=interleaved), k, k_cos, k_sin)
    queries, keys = [*plain[:1], query], [*plain[1:], key]
    return b.add(Attention(len(queries), h.scale, h.causal), *queries, *keys, v)


def _holes(sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"q_in": True, "k_in": False, "scale": 0.5, "causal": sizes["s"] == sizes["t"]}


def _rule(parts: int, plain: Mapping[str, str]) -> Rule:
    return Rule(
        name=f"rotary-layout-of-attention-{parts}",
        identity="(P q) · (P k)  =  q · k, P a permutation",
        source="permutations are orthogonal; rows of both weights are permuted alike",
        operands={**_ROTATED, "v": "b s f e", **plain},
        spellings=(Spelling(partial(_side, interleaved=True)),),
        rhs=partial(_side, interleaved=False),
        fidelity=Fidelity.REAL,
        holes=_holes,
    )


ONE_PART = _rule(1, {})
TWO_PARTS = _rule(2, {"plain_q": "b t h d", "plain_k": "b s m d"})
