"""Rotate before or after what treats all channels of a row alike: sums, experts, values, moves."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Attention,
    Cast,
    CombineExperts,
    GatherRows,
    GroupedLinear,
    Linear,
    Matmul,
    Reshape,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling, Values
from ascendfx.quant_passes.migration.rules.scale_into_producer import SCORED

_SOURCE = "Ashkboos et al., QuaRot, arXiv 2404.00456, section 4"


def _sum_lhs(b: SideBuilder, h: Any, x: Value, y: Value, r: Value) -> Value:
    return b.add(Linear(), b.add(Add(), x, y), r)


def _sum_rhs(b: GraphBuilder, h: Any, x: Value, y: Value, r: Value) -> Value:
    return b.add(Add(), b.add(Linear(), x, r), b.add(Linear(), y, r))


def _same_rows(site: Site) -> bool:
    return site.type_of("x") == site.type_of("y")


SUM = Rule(
    name="rotation-before-sum",
    identity="(x + y) Rᵀ  =  x Rᵀ + y Rᵀ",
    source="distributivity of the matrix product",
    operands={"x": "* k", "y": "* k", "r": "n k"},
    spellings=(Spelling(_sum_lhs),),
    rhs=_sum_rhs,
    fidelity=Fidelity.REAL,
    when=(Precondition("rows-are-repeated", _same_rows, "one term has rows that others share"),),
)


def _combine_lhs(b: SideBuilder, h: Any, y: Value, place: Value, g: Value, r: Value) -> Value:
    return b.add(Linear(), b.add(CombineExperts(), y, place, g), r)


def _combine_rhs(b: GraphBuilder, h: Any, y: Value, place: Value, g: Value, r: Value) -> Value:
    return b.add(CombineExperts(), b.add(Linear(), y, r), place, g)


COMBINE = Rule(
    name="rotation-before-combine",
    identity="(Σⱼ gⱼ yⱼ) Rᵀ  =  Σⱼ gⱼ (yⱼ Rᵀ)",
    source="distributivity of the matrix product",
    operands={"y": "t*j k", "place": "i32: t*j", "g": "t j", "r": "n k"},
    spellings=(Spelling(_combine_lhs),),
    rhs=_combine_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"pairs": sizes["t"] * sizes["j"]},
    below={"place": "pairs"},
    proof=Proof.EXHAUSTIVE,
)


def _after_experts_lhs(b: SideBuilder, h: Any, x: Value, w: Value, ends: Value, r: Value) -> Value:
    return b.add(Linear(), b.add(GroupedLinear(), x, w, ends), r)


def _after_experts_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, ends: Value, r: Value) -> Value:
    return b.add(GroupedLinear(), x, b.add(Matmul(), r, w), ends)


AFTER_EXPERTS = Rule(
    name="rotation-into-rows-of-experts",
    identity="(x W_eᵀ) Rᵀ  =  x (R W_e)ᵀ, e the expert of a row",
    source="associativity of the matrix product",
    operands={"x": "p k", "w": "e n k", "ends": "i32: e", "r": "m n"},
    spellings=(Spelling(_after_experts_lhs),),
    rhs=_after_experts_rhs,
    fidelity=Fidelity.REAL,
    below={"ends": "p"},
    proof=Proof.EXHAUSTIVE,
)


def _experts_lhs(b: SideBuilder, h: Any, x: Value, r: Value, w: Value, ends: Value) -> Value:
    return b.add(GroupedLinear(), b.add(Linear(), x, r), w, ends)


def _experts_rhs(b: GraphBuilder, h: Any, x: Value, r: Value, w: Value, ends: Value) -> Value:
    return b.add(GroupedLinear(), x, b.add(Matmul(), w, r), ends)


EXPERTS = Rule(
    name="rotation-into-columns-of-experts",
    identity="(x Rᵀ) W_eᵀ  =  x (W_e R)ᵀ, e the expert of a row",
    source="associativity of the matrix product",
    operands={"x": "p j", "r": "k j", "w": "e n k", "ends": "i32: e"},
    spellings=(Spelling(_experts_lhs),),
    rhs=_experts_rhs,
    fidelity=Fidelity.REAL,
    below={"ends": "p"},
    proof=Proof.EXHAUSTIVE,
)


def _attention_lhs(b: SideBuilder, h: Any, *operands: Value) -> Value:
    *others, r = operands
    return b.add(Linear(), b.add(Attention(2, h.scale, causal=h.causal), *others), r)


def _attention_rhs(b: GraphBuilder, h: Any, *operands: Value) -> Value:
    *scored, v, r = operands
    attention = Attention(2, h.scale, causal=h.causal)
    return b.add(attention, *scored, b.add(Linear(), v, r))


ATTENTION = Rule(
    name="rotation-before-attention",
    identity="(Σⱼ pⱼ vⱼ) Rᵀ  =  Σⱼ pⱼ (vⱼ Rᵀ), for every head",
    source=_SOURCE,
    operands={**SCORED, "v": "b u i n", "r": "m n"},
    spellings=(Spelling(_attention_lhs),),
    rhs=_attention_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"scale": 0.5, "causal": False},
    values=dict.fromkeys(
        SCORED,
        Values(
            low=-1.0,
            high=1.0,
            because="an error of the weights pⱼ, which grows with the scores, acts on the values "
            "in both forms; the bound takes it to be independent of what cancels there",
        ),
    ),
)


def _heads_lhs(b: SideBuilder, h: Any, x: Value, r: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(Reshape(h.shape), b.add(Linear(), x, r)), w)


def _heads_rhs(b: GraphBuilder, h: Any, x: Value, r: Value, w: Value) -> Value:
    rows = b.type_of(w).shape[0]
    heads = b.add(Reshape((rows, h.g, h.d)), w)
    rotated = b.add(Reshape((rows, h.g * h.j)), b.add(Matmul(), heads, r))
    lead = h.shape[:-1]
    return b.add(Linear(), b.add(Reshape((*lead, h.g * h.j)), x), rotated)


HEADS = Rule(
    name="rotation-into-columns-of-heads",
    identity="[x_h Rᵀ]_h Wᵀ  =  [x_h]_h [W_h R]_hᵀ, h a head",
    source=_SOURCE,
    operands={"x": "* g j", "r": "d j", "w": "n g*d"},
    spellings=(Spelling(_heads_lhs),),
    rhs=_heads_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"shape": (*sizes["lead"], sizes["g"] * sizes["d"])},
)


def _reshape_lhs(b: SideBuilder, h: Any, x: Value, r: Value) -> Value:
    return b.add(Reshape(h.shape), b.add(Linear(), x, r))


def _reshape_rhs(b: GraphBuilder, h: Any, x: Value, r: Value) -> Value:
    return b.add(Linear(), b.add(Reshape((*h.shape[:-1], h.k)), x), r)


def _rows_stay_whole(site: Site) -> bool:
    shape = site.holes["shape"]
    return bool(shape) and shape[-1] == site.holes["n"]


RESHAPE = Rule(
    name="rotation-past-reshape",
    identity="rows(x Rᵀ)  =  rows(x) Rᵀ",
    source="what is done to every row alike does not look at where the row is",
    operands={"x": "* k", "r": "n k"},
    spellings=(Spelling(_reshape_lhs),),
    rhs=_reshape_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"shape": (*sizes["lead"], 1, sizes["n"])},
    when=(Precondition("rows-are-cut", _rows_stay_whole, "the reshape cuts or joins rows"),),
)


def _table_lhs(b: SideBuilder, h: Any, table: Value, ids: Value, r: Value) -> Value:
    return b.add(Linear(), b.add(GatherRows(), table, ids), r)


def _table_rhs(b: GraphBuilder, h: Any, table: Value, ids: Value, r: Value) -> Value:
    return b.add(GatherRows(), b.add(Linear(), table, r), ids)


TABLE = Rule(
    name="rotation-into-table",
    identity="E[ids] Rᵀ  =  (E Rᵀ)[ids]",
    source="what is done to every row alike does not look at where the row is",
    operands={"table": "v k", "ids": "index: *", "r": "n k"},
    spellings=(Spelling(_table_lhs),),
    rhs=_table_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"index": DType.I64},
    below={"ids": "v"},
    proof=Proof.EXHAUSTIVE,
)


def _gather_lhs(b: SideBuilder, h: Any, x: Value, r: Value, ids: Value) -> Value:
    return b.add(GatherRows(), b.add(Linear(), x, r), ids)


def _gather_rhs(b: GraphBuilder, h: Any, x: Value, r: Value, ids: Value) -> Value:
    return b.add(Linear(), b.add(GatherRows(), x, ids), r)


GATHER = Rule(
    name="rotation-past-gather",
    identity="(x Rᵀ)[ids]  =  x[ids] Rᵀ",
    source="what is done to every row alike does not look at where the row is",
    operands={"x": "m k", "r": "n k", "ids": "index: p"},
    spellings=(Spelling(_gather_lhs),),
    rhs=_gather_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"index": DType.I32},
    below={"ids": "m"},
    proof=Proof.EXHAUSTIVE,
)


def _cast_lhs(b: SideBuilder, h: Any, x: Value, r: Value) -> Value:
    return b.add(Cast(DType.F32), b.add(Linear(), x, r))


def _cast_rhs(b: GraphBuilder, h: Any, x: Value, r: Value) -> Value:
    return b.add(Linear(), *(b.add(Cast(DType.F32), each) for each in (x, r)))


CAST = Rule(
    name="rotation-past-widening",
    identity="wide(x Rᵀ)  =  wide(x) wide(R)ᵀ",
    source="casts are the identity of real numbers; a wider product rounds less",
    operands={"x": "bf16: * k", "r": "bf16: n k"},
    spellings=(Spelling(_cast_lhs),),
    rhs=_cast_rhs,
    fidelity=Fidelity.REAL,
)


def _before_reshape_lhs(b: SideBuilder, h: Any, x: Value, r: Value) -> Value:
    return b.add(Linear(), b.add(Reshape(h.shape), x), r)


def _before_reshape_rhs(b: GraphBuilder, h: Any, x: Value, r: Value) -> Value:
    rows = b.add(Linear(), x, r)
    return b.add(Reshape((*h.shape[:-1], h.n)), rows)


def _rows_are_whole(site: Site) -> bool:
    return bool(site.holes["j"] == site.holes["k"])


BEFORE_RESHAPE = Rule(
    name="rotation-before-reshape",
    identity="rows(x) Rᵀ  =  rows(x Rᵀ)",
    source="what is done to every row alike does not look at where the row is",
    operands={"x": "* j", "r": "n k"},
    spellings=(Spelling(_before_reshape_lhs),),
    rhs=_before_reshape_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"shape": (*sizes["lead"], 1, sizes["k"])},
    when=(Precondition("rows-were-cut", _rows_are_whole, "the reshape cuts or joins rows"),),
)

UP = (SUM, COMBINE, AFTER_EXPERTS, ATTENTION, TABLE, BEFORE_RESHAPE)
"""Towards what makes the rows."""
DOWN = (EXPERTS, HEADS, RESHAPE, GATHER, CAST)
"""Towards what reads the rows."""
