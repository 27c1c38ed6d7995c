"""Recognise the rotary embedding written as a product of complex numbers."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Concat, Multiply, Reshape, Rotary, Slice, Subtract
from ascendfx.ir.tensor_type import broadcast
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _part(b: SideBuilder, h: Any, pairs: Value, which: int) -> Value:
    return b.add(Reshape(h.half), b.add(Slice(h.axis, which, which + 1), pairs))


def _lhs(b: SideBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    pairs = b.add(Reshape(h.split), x)
    u, v = _part(b, h, pairs, 0), _part(b, h, pairs, 1)
    real = b.add(Subtract(), b.add(Multiply(), u, cos), b.add(Multiply(), v, sin))
    imaginary = b.add(Add(), b.add(Multiply(), u, sin), b.add(Multiply(), v, cos))
    both = b.add(Concat(h.axis), b.add(Reshape(h.pair), real), b.add(Reshape(h.pair), imaginary))
    return b.add(Reshape(h.out), both)


def _rhs(b: GraphBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    wide = b.add(Reshape((*h.split[:-2], 2 * h.split[-2])), x)
    rotated = b.add(Rotary(interleaved_in=True, interleaved_out=True), wide, cos, sin)
    return b.add(Reshape(h.out), rotated)


def _pairs_are_neighbours(site: Site) -> bool:
    split, half, pair = (site.holes[name] for name in ("split", "half", "pair"))
    if len(split) < 2 or split[-1] != 2:
        return False
    return half == split[:-1] and pair == (*half, 1) and site.holes["axis"] == len(split) - 1


def _tables_do_not_widen(site: Site) -> bool:
    leading = site.holes["split"][:-2]
    return broadcast(leading, site.type_of("cos").shape[:-1]) == leading


def _tables_are_alike(site: Site) -> bool:
    return site.type_of("cos") == site.type_of("sin")


def _holes(sizes: Any) -> dict[str, Any]:
    half = (*sizes["lead"], sizes["n"])
    return {
        "split": (*half, 2),
        "half": half,
        "pair": (*half, 1),
        "axis": len(half),
        "out": (*sizes["lead"], 2 * sizes["n"]),
    }


RULE = Rule(
    name="rotary-pairs",
    identity="(x₂ᵢ + i x₂ᵢ₊₁) · (c + i s)  =  rotary(x, c, s), pairs (2i, 2i+1) on both sides",
    source="definition; Su et al., arXiv 2104.09864, eq. 34 as complex numbers, eq. 13",
    operands={"x": "narrow: * 2*n", "cos": "narrow: * n", "sin": "narrow: * n"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=_holes,
    when=(
        Precondition(
            "pairs-are-not-neighbours",
            _pairs_are_neighbours,
            "the two numbers of a pair are not neighbours of the last axis",
        ),
        Precondition(
            "tables-widen-operand",
            _tables_do_not_widen,
            "the tables have axes that the operand lacks",
        ),
        Precondition("tables-differ", _tables_are_alike, "cosine and sine have different shapes"),
    ),
)
