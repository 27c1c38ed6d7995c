"""Scale the columns of a weight instead of the channels that it reads."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    DispatchExperts,
    GatherRows,
    GroupedLinear,
    Linear,
    Multiply,
    Reshape,
    RowGroups,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling

_SOURCE = "diagonal matrices are associative, too; Xiao et al., arXiv 2211.10438, eq. 3"


def _linear_lhs(b: SideBuilder, h: Any, x: Value, s: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(Multiply(), x, s), w)


def _linear_rhs(b: GraphBuilder, h: Any, x: Value, s: Value, w: Value) -> Value:
    return b.add(Linear(), x, b.add(Multiply(), w, s))


LINEAR = Rule(
    name="channel-scale-into-linear",
    identity="(x diag(s)) Wᵀ  =  x (W diag(s))ᵀ",
    source=_SOURCE,
    operands={"x": "* k", "s": "k", "w": "n k"},
    spellings=(Spelling(_linear_lhs),),
    rhs=_linear_rhs,
    fidelity=Fidelity.REAL,
)


def _grouped_lhs(b: SideBuilder, h: Any, x: Value, s: Value, w: Value, ends: Value) -> Value:
    return b.add(GroupedLinear(), b.add(Multiply(), x, s), w, ends)


def _grouped_rhs(b: GraphBuilder, h: Any, x: Value, s: Value, w: Value, ends: Value) -> Value:
    return b.add(GroupedLinear(), x, b.add(Multiply(), w, s), ends)


GROUPED = Rule(
    name="channel-scale-into-grouped-linear",
    identity="(x diag(s)) W_eᵀ  =  x (W_e diag(s))ᵀ, e the expert of a row",
    source=_SOURCE,
    operands={"x": "p k", "s": "k", "w": "e n k", "ends": "i32: e"},
    spellings=(Spelling(_grouped_lhs),),
    rhs=_grouped_rhs,
    fidelity=Fidelity.REAL,
    below={"ends": "p"},
    proof=Proof.EXHAUSTIVE,
)


def _experts_lhs(b: SideBuilder, h: Any, x: Value, s: Value, w: Value, ids: Value) -> Value:
    _, _, ends = b.add_multi(DispatchExperts(h.e), ids)
    own = b.add(GatherRows(), s, b.add(RowGroups(h.t * h.j), ends))
    return b.add(GroupedLinear(), b.add(Multiply(), x, own), w, ends)


def _experts_rhs(b: GraphBuilder, h: Any, x: Value, s: Value, w: Value, ids: Value) -> Value:
    _, _, ends = b.add_multi(DispatchExperts(h.e), ids)
    columns = b.add(Reshape((h.e, 1, h.k)), s)
    return b.add(GroupedLinear(), x, b.add(Multiply(), w, columns), ends)


EXPERTS = Rule(
    name="expert-scale-into-grouped-linear",
    identity="(x diag(s_e)) W_eᵀ  =  x (W_e diag(s_e))ᵀ, e the expert of a row",
    source=_SOURCE,
    operands={"x": "t*j k", "s": "e k", "w": "e n k", "ids": "index: t j"},
    spellings=(Spelling(_experts_lhs),),
    rhs=_experts_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"index": DType.I64},
    below={"ids": "e"},
    proof=Proof.EXHAUSTIVE,
)


def _heads_lhs(b: SideBuilder, h: Any, x: Value, s: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(Reshape(h.shape), b.add(Multiply(), x, s)), w)


def _heads_rhs(b: GraphBuilder, h: Any, x: Value, s: Value, w: Value) -> Value:
    columns = b.add(Reshape((h.g * h.d,)), s)
    return b.add(Linear(), b.add(Reshape(h.shape), x), b.add(Multiply(), w, columns))


HEADS = Rule(
    name="head-scale-into-linear",
    identity="[x_h diag(s_h)]_h Wᵀ  =  [x_h]_h (W diag(s))ᵀ, h a head",
    source=_SOURCE,
    operands={"x": "* g d", "s": "g d", "w": "n g*d"},
    spellings=(Spelling(_heads_lhs),),
    rhs=_heads_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"shape": (*sizes["lead"], sizes["g"] * sizes["d"])},
)

RULES = (LINEAR, GROUPED, EXPERTS, HEADS)
