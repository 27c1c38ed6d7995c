"""Move rows first, then scale their channels."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Cast, GatherRows, Multiply, Reshape
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling

_SOURCE = "what is done to every row alike does not look at where the row is"


def _reshape_lhs(b: SideBuilder, h: Any, x: Value, s: Value) -> Value:
    return b.add(Reshape(h.shape), b.add(Multiply(), x, s))


def _reshape_rhs(b: GraphBuilder, h: Any, x: Value, s: Value) -> Value:
    return b.add(Multiply(), b.add(Reshape(h.shape), x), s)


def _rows_stay_whole(site: Site) -> bool:
    shape = site.holes["shape"]
    return bool(shape) and shape[-1] == site.type_of("s").shape[0]


RESHAPE = Rule(
    name="channel-scale-past-reshape",
    identity="rows(x diag(s))  =  rows(x) diag(s)",
    source=_SOURCE,
    operands={"x": "* k", "s": "k"},
    spellings=(Spelling(_reshape_lhs),),
    rhs=_reshape_rhs,
    fidelity=Fidelity.BITWISE,
    holes=lambda sizes: {"shape": (*sizes["lead"], 1, sizes["k"])},
    when=(Precondition("rows-are-cut", _rows_stay_whole, "the reshape cuts or joins rows"),),
)


def _gather_lhs(b: SideBuilder, h: Any, x: Value, s: Value, ids: Value) -> Value:
    return b.add(GatherRows(), b.add(Multiply(), x, s), ids)


def _gather_rhs(b: GraphBuilder, h: Any, x: Value, s: Value, ids: Value) -> Value:
    return b.add(Multiply(), b.add(GatherRows(), x, ids), s)


GATHER = Rule(
    name="channel-scale-past-gather",
    identity="(x diag(s))[ids]  =  x[ids] diag(s)",
    source=_SOURCE,
    operands={"x": "m k", "s": "k", "ids": "index: r"},
    spellings=(Spelling(_gather_lhs),),
    rhs=_gather_rhs,
    fidelity=Fidelity.BITWISE,
    holes=lambda _: {"index": DType.I32},
    below={"ids": "m"},
    proof=Proof.EXHAUSTIVE,
)


def _cast_lhs(b: SideBuilder, h: Any, x: Value, s: Value) -> Value:
    return b.add(Cast(DType.F32), b.add(Multiply(), x, s))


def _cast_rhs(b: GraphBuilder, h: Any, x: Value, s: Value) -> Value:
    wide = (b.add(Cast(DType.F32), each) for each in (x, s))
    return b.add(Multiply(), *wide)


CAST = Rule(
    name="channel-scale-past-widening",
    identity="wide(x diag(s))  =  wide(x) diag(wide(s))",
    source="casts are the identity of real numbers; a wider product rounds less",
    operands={"x": "bf16: * k", "s": "bf16: k"},
    spellings=(Spelling(_cast_lhs),),
    rhs=_cast_rhs,
    fidelity=Fidelity.REAL,
)

RULES = (RESHAPE, GATHER, CAST)
