"""Multiply one input by several weights at once."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Concat, Linear, Slice, Swiglu
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_SOURCE = "product of block matrices; MlaProlog concatenates W_DQ and W_DKV in this way"


def _parallel_lhs(b: SideBuilder, h: Any, x: Value, v: Value, w: Value) -> tuple[Value, Value]:
    first = b.add(Linear(), x, v)
    return b.add(Linear(), x, w), first


def _parallel_rhs(b: GraphBuilder, h: Any, x: Value, v: Value, w: Value) -> tuple[Value, Value]:
    y = b.add(Linear(), x, b.add(Concat(0), v, w))
    first = b.add(Slice(h.last, 0, h.m), y)
    return b.add(Slice(h.last, h.m, h.m + h.n), y), first


PARALLEL = Rule(
    name="merge-parallel-linears",
    identity="x Vᵀ and x Wᵀ  =  both parts of x [V; W]ᵀ",
    source=_SOURCE,
    operands={"x": "* k", "v": "m k", "w": "n k"},
    spellings=(Spelling(_parallel_lhs),),
    rhs=_parallel_rhs,
    fidelity=Fidelity.REAL,
)


def _gated_lhs(b: SideBuilder, h: Any, x: Value, v: Value, w: Value) -> Value:
    return b.add(Swiglu(), b.add(Linear(), x, v), b.add(Linear(), x, w))


def _gated_rhs(b: GraphBuilder, h: Any, x: Value, v: Value, w: Value) -> Value:
    y = b.add(Linear(), x, b.add(Concat(0), v, w))
    gate = b.add(Slice(h.last, 0, h.n), y)
    return b.add(Swiglu(), gate, b.add(Slice(h.last, h.n, 2 * h.n), y))


GATE_AND_UP = Rule(
    name="merge-gate-and-up",
    identity="swiglu(x Gᵀ, x Uᵀ)  =  swiglu of both halves of x [G; U]ᵀ",
    source=_SOURCE,
    operands={"x": "* k", "v": "n k", "w": "n k"},
    spellings=(Spelling(_gated_lhs),),
    rhs=_gated_rhs,
    fidelity=Fidelity.REAL,
)


def _joined_lhs(b: SideBuilder, h: Any, x: Value, v: Value, w: Value) -> Value:
    return b.add(Concat(h.last), b.add(Linear(), x, v), b.add(Linear(), x, w))


def _joined_rhs(b: GraphBuilder, h: Any, x: Value, v: Value, w: Value) -> Value:
    return b.add(Linear(), x, b.add(Concat(0), v, w))


CONCAT = Rule(
    name="concat-of-linears",
    identity="[x Vᵀ | x Wᵀ]  =  x [V; W]ᵀ",
    source=_SOURCE,
    operands={"x": "* k", "v": "m k", "w": "n k"},
    spellings=(Spelling(_joined_lhs),),
    rhs=_joined_rhs,
    fidelity=Fidelity.REAL,
)


def _slice_lhs(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Slice(h.last, h.start, h.stop), b.add(Linear(), x, w))


def _slice_rhs(b: GraphBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Linear(), x, b.add(Slice(0, h.start, h.stop), w))


SLICE = Rule(
    name="slice-of-linear",
    identity="(x Wᵀ)[a:b]  =  x (W[a:b])ᵀ",
    source="a row of the weight makes an element of the result",
    operands={"x": "* k", "w": "n k"},
    spellings=(Spelling(_slice_lhs),),
    rhs=_slice_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"start": sizes["n"] - 1, "stop": sizes["n"]},
)
