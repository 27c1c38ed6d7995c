"""Divide what makes the channels instead of the channels: gains, rows of weights, values."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Attention,
    Constant,
    Divide,
    Expand,
    Linear,
    Multiply,
    Reshape,
    RmsNorm,
    Swiglu,
)
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling, Values
from ascendfx.quant_passes.migration.rules.known_factors import FACTORS, KNOWN_FACTORS

_SOURCE = "Xiao et al., arXiv 2211.10438, section 4: factors go into the layer before"


def _norm_lhs(b: SideBuilder, h: Any, x: Value, gain: Value, s: Value) -> Value:
    return b.add(Divide(), b.add(RmsNorm(h.eps), x, gain), s)


def _norm_rhs(b: GraphBuilder, h: Any, x: Value, gain: Value, s: Value) -> Value:
    return b.add(RmsNorm(h.eps), x, b.add(Divide(), gain, s))


NORM = Rule(
    name="channel-scale-out-of-norm",
    identity="norm(x; g) / s  =  norm(x; g / s)",
    source=_SOURCE,
    operands={"x": "* k", "gain": "k", "s": "k"},
    spellings=(Spelling(_norm_lhs),),
    rhs=_norm_rhs,
    fidelity=Fidelity.REAL,
    values={"s": FACTORS},
    when=(KNOWN_FACTORS,),
    holes=lambda _: {"eps": 1e-5},
)


def _gain_lhs(b: SideBuilder, h: Any, x: Value, gain: Value) -> Value:
    return b.add(RmsNorm(h.eps), x, gain)


def _gain_rhs(b: GraphBuilder, h: Any, x: Value, gain: Value) -> Value:
    one = b.add(Constant(1.0, b.type_of(gain).dtype))
    return b.add(Multiply(), b.add(RmsNorm(h.eps), x, b.add(Expand((h.k,)), one)), gain)


GAIN = Rule(
    name="gain-out-of-norm",
    identity="norm(x; g)  =  norm(x; 1) diag(g)",
    source="definition; Ashkboos et al., QuaRot, arXiv 2404.00456, section 3.1",
    operands={"x": "* k", "gain": "k"},
    spellings=(Spelling(_gain_lhs),),
    rhs=_gain_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"eps": 1e-5},
    cyclic=True,
)


def _rows_lhs(b: SideBuilder, h: Any, x: Value, w: Value, s: Value) -> Value:
    return b.add(Divide(), b.add(Linear(), x, w), s)


def _rows_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, s: Value) -> Value:
    rows = b.add(Reshape((h.n, 1)), s)
    return b.add(Linear(), x, b.add(Divide(), w, rows))


ROWS = Rule(
    name="channel-scale-out-of-linear",
    identity="(x Wᵀ) diag(s)⁻¹  =  x (diag(s)⁻¹ W)ᵀ",
    source=_SOURCE,
    operands={"x": "* k", "w": "n k", "s": "n"},
    spellings=(Spelling(_rows_lhs),),
    rhs=_rows_rhs,
    fidelity=Fidelity.REAL,
    values={"s": FACTORS},
    when=(KNOWN_FACTORS,),
)


def _swiglu_lhs(b: SideBuilder, h: Any, gate: Value, up: Value, s: Value) -> Value:
    return b.add(Divide(), b.add(Swiglu(), gate, up), s)


def _swiglu_rhs(b: GraphBuilder, h: Any, gate: Value, up: Value, s: Value) -> Value:
    return b.add(Swiglu(), gate, b.add(Divide(), up, s))


SWIGLU = Rule(
    name="channel-scale-out-of-swiglu",
    identity="swiglu(g, u) / s  =  swiglu(g, u / s)",
    source=_SOURCE,
    operands={"gate": "* k", "up": "* k", "s": "k"},
    spellings=(Spelling(_swiglu_lhs),),
    rhs=_swiglu_rhs,
    fidelity=Fidelity.REAL,
    values={"s": FACTORS},
    when=(KNOWN_FACTORS,),
)

_SCORED = Values(
    low=-1.0,
    high=1.0,
    because="an error of the weights pⱼ, which grows with the scores, acts on the values in both "
    "forms; the bound takes it to be independent of what cancels there",
)


def _attention_lhs(b: SideBuilder, h: Any, *operands: Value) -> Value:
    *others, s = operands
    return b.add(Divide(), b.add(Attention(2, h.scale, causal=h.causal), *others), s)


def _attention_rhs(b: GraphBuilder, h: Any, *operands: Value) -> Value:
    *scored, v, s = operands
    attention = Attention(2, h.scale, causal=h.causal)
    return b.add(attention, *scored, b.add(Divide(), v, s))


SCORED = {"q1": "b t h d", "q2": "b t h e", "k1": "b u g d", "k2": "b u f e"}
"""Operands of an attention of two parts before its values."""

ATTENTION = Rule(
    name="head-scale-out-of-attention",
    identity="(Σⱼ pⱼ vⱼ) / s  =  Σⱼ pⱼ (vⱼ / s), for every head",
    source=_SOURCE,
    operands={**SCORED, "v": "b u h n", "s": "h n"},
    spellings=(Spelling(_attention_lhs),),
    rhs=_attention_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"scale": 0.5, "causal": False},
    values={**dict.fromkeys(SCORED, _SCORED), "s": FACTORS},
    when=(KNOWN_FACTORS,),
)

RULES = (NORM, ROWS, SWIGLU, ATTENTION)
"""Without `GAIN`, which applies to every norm: to those that are chosen only."""
