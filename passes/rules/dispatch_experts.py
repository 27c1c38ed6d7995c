"""Recognise the sort, the counts and the inverse permutation that group tokens by expert."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import (
    Cast,
    CombineExperts,
    Constant,
    CumulativeSum,
    DispatchExperts,
    Divide,
    GatherRows,
    Histogram,
    Iota,
    Multiply,
    ReduceSum,
    Reshape,
    RouteTopk,
    ScatterRows,
    Sort,
    Topk,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling

_SOURCE = "definition; a stable sort by expert, as in MegaBlocks, arXiv 2211.15841, section 4"


def _sorted(b: SideBuilder, h: Any, ids: Value) -> tuple[Value, ...]:
    return b.add_multi(Sort(0), b.add(Reshape((h.r * h.k,)), ids))


def _ends_lhs(b: SideBuilder, h: Any, ids: Value, *, counted: str, float_at: str) -> Value:
    numbers = _sorted(b, h, ids)[0] if counted == "sorted" else b.add(Reshape((h.r * h.k,)), ids)
    if float_at == "numbers":
        numbers = b.add(Cast(DType.F32), numbers)
    counts = b.add(Histogram(h.experts), numbers)
    if float_at == "counts":
        counts = b.add(Cast(DType.F32), counts)
    return b.add(CumulativeSum(0), b.add(Cast(DType.I32), counts))


def _ends_rhs(b: GraphBuilder, h: Any, ids: Value) -> Value:
    return b.add_multi(DispatchExperts(h.experts), ids)[2]


def _ids_are_experts(site: Site) -> bool:
    """Whether the ids come from a choice among at most as many as are counted."""
    value = site.bound["ids"]
    while isinstance(site.graph.op_of(value), Cast | Reshape):
        (value,) = site.graph.nodes[value.node].operands
    op, operands = site.graph.op_of(value), site.graph.nodes[value.node].operands
    if not isinstance(op, RouteTopk | Topk) or value.result != 1:
        return False
    choices = site.graph.type_of(operands[0]).shape[-1]
    return isinstance(choices, int) and choices <= site.holes["experts"]


ENDS = Rule(
    name="dispatch-ends",
    identity="running sums of the counts of each expert  =  ends of dispatch_experts",
    source=_SOURCE,
    operands={"ids": "i64: r k"},
    spellings=tuple(
        Spelling(partial(_ends_lhs, counted=counted, float_at=float_at))
        for counted in ("sorted", "given")
        for float_at in ("numbers", "counts", "nowhere")
    ),
    rhs=_ends_rhs,
    fidelity=Fidelity.BITWISE,
    holes=lambda sizes: {"experts": 5},
    below={"ids": "experts"},
    below_by={"ids": "ids-may-exceed-experts"},
    proof=Proof.EXHAUSTIVE,
    when=(
        Precondition(
            "ids-may-exceed-experts",
            _ids_are_experts,
            "the ids are not known to be below the number of counted experts",
        ),
    ),
)


def _source_lhs(b: SideBuilder, h: Any, ids: Value) -> Value:
    return b.add(Divide(), _sorted(b, h, ids)[1], b.add(Constant(h.k, DType.I64)))


def _only_source_lhs(b: SideBuilder, h: Any, ids: Value) -> Value:
    return _sorted(b, h, ids)[1]  # x // 1 is x


def _source_rhs(b: GraphBuilder, h: Any, ids: Value) -> Value:
    rows = b.add_multi(DispatchExperts(h.experts), ids)[0]
    return b.add(Cast(DType.I64), rows)


def _dispatched(site: Site) -> Mapping[str, Any]:
    """Return the number of experts of the dispatch of the same ids, if there is one."""
    found = _dispatch_of(site.graph, site.bound["ids"])
    return {} if found is None else {"experts": found.experts}


def _dispatch_of(graph: Graph, ids: Value) -> DispatchExperts | None:
    for reader in graph.uses.get(ids, ()):
        op = graph.nodes[reader].op
        if isinstance(op, DispatchExperts):
            return op
    return None


_KNOWN = Precondition(
    "experts-unknown",
    lambda site: "experts" in site.holes,
    "the number of experts is not known, because their pairs are not counted",
)

SOURCE_ROWS = Rule(
    name="dispatch-source-rows",
    identity="(positions of the sorted pairs) // k  =  source rows of dispatch_experts",
    source=_SOURCE,
    operands={"ids": "i64: r k"},
    spellings=(Spelling(_source_lhs), Spelling(_only_source_lhs, {"k": 1})),
    rhs=_source_rhs,
    fidelity=Fidelity.BITWISE,
    holes=lambda sizes: {"experts": 5},
    derive=_dispatched,
    below={"ids": "experts"},
    below_by={"ids": "experts-unknown"},
    proof=Proof.EXHAUSTIVE,
    when=(_KNOWN,),
)


def _combine_lhs(
    b: SideBuilder, h: Any, y: Value, weights: Value, ids: Value, base: Value, *, casts: bool
) -> Value:
    order = _sorted(b, h, ids)[1]
    weight = b.add(GatherRows(), b.add(Reshape((h.r * h.k,)), weights), order)
    column = b.add(Reshape((h.r * h.k, 1)), weight)
    wide = b.add(Cast(h.wide), y) if casts else y
    scaled = b.add(Multiply(), wide, column)
    place = b.add(ScatterRows(), base, order, b.add(Iota(h.r * h.k, DType.I64)))
    pairs = b.add(Reshape((h.r, h.k, h.d)), b.add(GatherRows(), scaled, place))
    total = b.add(ReduceSum((1,), keep=False), pairs)
    return b.add(Cast(h.narrow), total) if casts else total


def _combine_rhs(
    b: GraphBuilder, h: Any, y: Value, weights: Value, ids: Value, base: Value
) -> Value:
    place = b.add_multi(DispatchExperts(h.experts), ids)[1]
    return b.add(CombineExperts(), y, place, weights)


COMBINE = Rule(
    name="combine-experts",
    identity="Σⱼ (w y) at the place of pair (r, j)  =  combine_experts(y, place, w)",
    source=_SOURCE,
    operands={
        "y": "narrow: r*k d",
        "weights": "wide: r k",
        "ids": "i64: r k",
        "base": "i64: r*k",
    },
    spellings=(
        Spelling(partial(_combine_lhs, casts=True)),
        Spelling(partial(_combine_lhs, casts=False)),
    ),
    rhs=_combine_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"experts": 5, "wide": DType.F32, "narrow": DType.F32},
    derive=_dispatched,
    below={"ids": "experts", "base": "experts"},
    below_by={"ids": "experts-unknown", "base": "experts-unknown"},
    proof=Proof.EXHAUSTIVE,
    when=(_KNOWN,),
)
