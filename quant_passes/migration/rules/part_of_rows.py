"""Scale or rotate those rows of a weight that make a part of its results; others stay."""

from collections.abc import Callable
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Concat,
    DispatchExperts,
    Divide,
    GatherRows,
    GroupedLinear,
    Linear,
    Matmul,
    Reshape,
    RowGroups,
    Slice,
    Swiglu,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling
from ascendfx.quant_passes.migration.rules.known_factors import FACTORS, KNOWN_FACTORS


def _apart(width: str) -> Precondition:
    """Return the condition that a part is as wide as what changes it, and apart from the other."""

    def fits(site: Site) -> bool:
        start, stop, first, last = (
            site.holes[name] for name in ("start", "stop", "first", "last_one")
        )
        return stop - start == site.holes[width] and (last <= start or stop <= first)

    return Precondition(
        "other-parts",
        fits,
        "the part that is changed has another width, or channels that the other part has, too",
    )


def _changed(
    b: GraphBuilder, w: Value, axis: int, part: slice, change: Callable[[Value], Value]
) -> Value:
    """Return a weight with the rows ``part`` of an axis changed."""
    size = b.type_of(w).shape[axis]
    pieces = [change(b.add(Slice(axis, part.start, part.stop), w))]
    if part.start > 0:
        pieces.insert(0, b.add(Slice(axis, 0, part.start), w))
    if part.stop != size:
        pieces.append(b.add(Slice(axis, part.stop, size), w))
    return b.add(Concat(axis), *pieces) if len(pieces) > 1 else pieces[0]


def _gated(b: SideBuilder, h: Any, x: Value, w: Value, ends: Value) -> Value:
    both = b.add(GroupedLinear(), x, w, ends)
    gate, up = b.add(Slice(1, h.first, h.last_one), both), b.add(Slice(1, h.start, h.stop), both)
    return b.add(Swiglu(), gate, up)


def _experts_lhs(b: SideBuilder, h: Any, x: Value, w: Value, ids: Value, s: Value) -> Value:
    _, _, ends = b.add_multi(DispatchExperts(h.e), ids)
    own = b.add(GatherRows(), s, b.add(RowGroups(h.t * h.j), ends))
    return b.add(Divide(), _gated(b, h, x, w, ends), own)


def _experts_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, ids: Value, s: Value) -> Value:
    _, _, ends = b.add_multi(DispatchExperts(h.e), ids)
    rows = b.add(Reshape((h.e, h.m, 1)), s)
    part = slice(h.start, h.stop)
    changed = _changed(b, w, 1, part, lambda up: b.add(Divide(), up, rows))
    return _gated(b, h, x, changed, ends)


EXPERTS = Rule(
    name="expert-scale-out-of-grouped-linear",
    identity="swiglu(x G_eᵀ, x U_eᵀ) / s_e  =  swiglu(x G_eᵀ, x (diag(s_e)⁻¹ U_e)ᵀ)",
    source="Xiao et al., arXiv 2211.10438, section 4: factors go into the layer before",
    operands={"x": "t*j k", "w": "e 2*m k", "ids": "index: t j", "s": "e m"},
    spellings=(Spelling(_experts_lhs),),
    rhs=_experts_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {
        "first": 0,
        "last_one": sizes["m"],
        "start": sizes["m"],
        "stop": 2 * sizes["m"],
        "index": DType.I64,
    },
    below={"ids": "e"},
    proof=Proof.EXHAUSTIVE,
    values={"s": FACTORS},
    when=(KNOWN_FACTORS, _apart("m")),
)


def _heads(b: SideBuilder, h: Any, x: Value, w: Value) -> tuple[Value, Value]:
    heads = b.add(Reshape(h.shape), b.add(Linear(), x, w))
    return (
        b.add(Slice(h.axis, h.start, h.stop), heads),
        b.add(Slice(h.axis, h.first, h.last_one), heads),
    )


def _in_heads(b: GraphBuilder, h: Any, w: Value, change: Callable[[Value], Value]) -> Value:
    rows, columns = b.type_of(w).shape
    heads = b.add(Reshape((h.g, h.m, columns)), w)
    changed = _changed(b, heads, 1, slice(h.start, h.stop), change)
    return b.add(Reshape((rows, columns)), changed)


def _head_scale_lhs(b: SideBuilder, h: Any, x: Value, w: Value, s: Value) -> tuple[Value, Value]:
    values, keys = _heads(b, h, x, w)
    return b.add(Divide(), values, s), keys


def _head_scale_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, s: Value) -> tuple[Value, Value]:
    rows = b.add(Reshape((*b.type_of(s).shape, 1)), s)
    return _heads(b, h, x, _in_heads(b, h, w, lambda part: b.add(Divide(), part, rows)))


def _head_holes(sizes: Any) -> dict[str, Any]:
    """Return holes for heads of ``m`` channels, of which the last ``v`` are changed."""
    return {
        "shape": (*sizes["lead"], sizes["g"], sizes["m"]),
        "axis": len(sizes["lead"]) + 1,
        "start": sizes["m"] - sizes["v"],
        "stop": sizes["m"],
        "first": 0,
        "last_one": sizes["m"] - sizes["v"],
    }


def _is_in_heads(site: Site) -> bool:
    shape, axis = site.holes["shape"], site.holes["axis"]
    heads, size = site.holes["g"], site.holes["m"]
    made = axis == len(shape) - 1 and shape[-2:] == (heads, size)
    return made and site.type_of("w").shape[0] == heads * size


_IN_HEADS = Precondition(
    "other-heads", _is_in_heads, "the parts are not parts of heads that the rows of a weight make"
)

HEAD_SCALE = Rule(
    name="head-scale-out-of-linear",
    identity="(x W_hᵀ)[a:b] / s_h  =  (x W'_hᵀ)[a:b], W' = W with rows a:b of each head divided",
    source="Xiao et al., arXiv 2211.10438, section 4; v rows of kv_b",
    operands={"x": "* k", "w": "g*m k", "s": "g v"},
    spellings=(Spelling(_head_scale_lhs),),
    rhs=_head_scale_rhs,
    fidelity=Fidelity.REAL,
    holes=_head_holes,
    derive=lambda site: {"m": site.holes["shape"][-1]},
    minimum={"m": 2},
    values={"s": FACTORS},
    when=(KNOWN_FACTORS, _IN_HEADS, _apart("v")),
)


def _head_rotation_lhs(b: SideBuilder, h: Any, x: Value, w: Value, r: Value) -> tuple[Value, Value]:
    values, keys = _heads(b, h, x, w)
    return b.add(Linear(), values, r), keys


def _head_rotation_rhs(
    b: GraphBuilder, h: Any, x: Value, w: Value, r: Value
) -> tuple[Value, Value]:
    return _heads(b, h, x, _in_heads(b, h, w, lambda part: b.add(Matmul(), r, part)))


HEAD_ROTATION = Rule(
    name="rotation-into-rows-of-heads",
    identity="(x W_hᵀ)[a:b] Rᵀ  =  (x W'_hᵀ)[a:b], W' = W with R W_h[a:b] for each head",
    source="Ashkboos et al., QuaRot, arXiv 2404.00456, section 4: per-head values",
    operands={"x": "* k", "w": "g*m k", "r": "v v"},
    spellings=(Spelling(_head_rotation_lhs),),
    rhs=_head_rotation_rhs,
    fidelity=Fidelity.REAL,
    holes=_head_holes,
    derive=lambda site: {"g": site.holes["shape"][-2], "m": site.holes["shape"][-1]},
    minimum={"m": 2},
    when=(_IN_HEADS, _apart("v")),
)


def _part_lhs(b: SideBuilder, h: Any, x: Value, w: Value, r: Value) -> tuple[Value, Value]:
    whole = b.add(Linear(), x, w)
    part = b.add(Slice(h.last, h.start, h.stop), whole)
    return b.add(Linear(), part, r), b.add(Slice(h.last, h.first, h.last_one), whole)


def _part_rhs(b: GraphBuilder, h: Any, x: Value, w: Value, r: Value) -> tuple[Value, Value]:
    part = slice(h.start, h.stop)
    changed = _changed(b, w, 0, part, lambda rows: b.add(Matmul(), r, rows))
    whole = b.add(Linear(), x, changed)
    return (
        b.add(Slice(h.last, h.start, h.stop), whole),
        b.add(Slice(h.last, h.first, h.last_one), whole),
    )


PART_ROTATION = Rule(
    name="rotation-into-part-of-rows",
    identity="(x Wᵀ)[a:b] Rᵀ  =  (x W'ᵀ)[a:b], W' = W with R W[a:b]",
    source="associativity of the matrix product; rows of the rotary part stay",
    operands={"x": "* k", "w": "n k", "r": "v v"},
    spellings=(Spelling(_part_lhs),),
    rhs=_part_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {
        "start": 0,
        "stop": sizes["v"],
        "first": sizes["v"],
        "last_one": sizes["n"],
    },
    minimum={"n": 2},
    when=(_apart("v"),),
)

RULES = (EXPERTS, HEAD_SCALE, HEAD_ROTATION, PART_ROTATION)
