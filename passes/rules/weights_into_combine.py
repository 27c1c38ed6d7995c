"""Let the last sum over the experts apply factors, or take its weights to the experts."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Cast,
    CombineExperts,
    Constant,
    DispatchExperts,
    Expand,
    GatherRows,
    GroupedLinear,
    Multiply,
    Reshape,
    ScatterRows,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling

_SOURCE = "the weighted sum is linear: Σ_k g_k (W h_k) = Σ_k W (g_k h_k)"


def _row_lhs(b: SideBuilder, h: Any, y: Value, scale: Value, place: Value, weights: Value) -> Value:
    return b.add(CombineExperts(), b.add(Multiply(), y, scale), place, weights)


def _row_rhs(
    b: GraphBuilder, h: Any, y: Value, scale: Value, place: Value, weights: Value
) -> Value:
    moved = b.add(GatherRows(), b.add(Reshape((h.r * h.k,)), scale), place)
    wide = b.add(Cast(b.type_of(weights).dtype), b.add(Reshape((h.r, h.k)), moved))
    return b.add(CombineExperts(), y, place, b.add(Multiply(), weights, wide))


ROW_SCALE = Rule(
    name="row-scale-into-combine",
    identity="Σⱼ wⱼ (s y) at the place of pair j  =  Σⱼ (wⱼ s at the place) y",
    source=_SOURCE,
    operands={"y": "r*k d", "scale": "r*k 1", "place": "i32: r*k", "weights": "r k"},
    spellings=(Spelling(_row_lhs),),
    rhs=_row_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"pairs": sizes["r"] * sizes["k"]},
    below={"place": "pairs"},
    proof=Proof.EXHAUSTIVE,
)


def _one_lhs(b: SideBuilder, h: Any, y: Value, scale: Value, place: Value, weights: Value) -> Value:
    return b.add(Multiply(), b.add(CombineExperts(), y, place, weights), scale)


def _one_rhs(
    b: GraphBuilder, h: Any, y: Value, scale: Value, place: Value, weights: Value
) -> Value:
    wide = b.add(Cast(b.type_of(weights).dtype), scale)
    return b.add(CombineExperts(), y, place, b.add(Multiply(), weights, wide))


ONE_SCALE = Rule(
    name="scale-into-combine",
    identity="s · Σⱼ wⱼ yⱼ  =  Σⱼ (s wⱼ) yⱼ",
    source=_SOURCE,
    operands={"y": "r*k d", "scale": "", "place": "i32: r*k", "weights": "r k"},
    spellings=(Spelling(_one_lhs),),
    rhs=_one_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"pairs": sizes["r"] * sizes["k"]},
    below={"place": "pairs"},
    proof=Proof.EXHAUSTIVE,
)


def _late_lhs(b: SideBuilder, h: Any, x: Value, w: Value, ids: Value, weights: Value) -> Value:
    _, place, ends = b.add_multi(DispatchExperts(h.e), ids)
    return b.add(CombineExperts(), b.add(GroupedLinear(), x, w, ends), place, weights)


def _early_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, ids: Value, weights: Value) -> Value:
    _, place, ends = b.add_multi(DispatchExperts(h.e), ids)
    wide, narrow = b.type_of(weights).dtype, b.type_of(x).dtype
    empty = b.add(Expand((h.r * h.k,)), b.add(Constant(0.0, wide)))
    sorted_ = b.add(ScatterRows(), empty, place, b.add(Reshape((h.r * h.k,)), weights))
    column = b.add(Cast(narrow), b.add(Reshape((h.r * h.k, 1)), sorted_))
    y = b.add(GroupedLinear(), b.add(Multiply(), x, column), w, ends)
    ones = b.add(Expand((h.r, h.k)), b.add(Constant(1.0, wide)))
    return b.add(CombineExperts(), y, place, ones)


BEFORE_PROJECTION = Rule(
    name="routing-weights-before-projection",
    identity="Σⱼ gⱼ (W_e hⱼ)  =  Σⱼ W_e (gⱼ hⱼ), e the expert of pair j",
    source=_SOURCE,
    operands={"x": "r*k c", "w": "e d c", "ids": "index: r k", "weights": "r k"},
    spellings=(Spelling(_late_lhs),),
    rhs=_early_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"index": DType.I64},
    below={"ids": "e"},
    proof=Proof.EXHAUSTIVE,
    cyclic=True,
)
