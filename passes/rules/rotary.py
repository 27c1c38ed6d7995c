"""Recognise the rotary position embedding in the layouts that models use."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Concat, Multiply, Negate, Reshape, Rotary, Slice, Subtract
from ascendfx.ir.tensor_type import broadcast
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling

_SOURCE = "definition; Su et al., arXiv 2104.09864, eq. 34"


def _tables_do_not_widen(site: Site) -> bool:
    leading, cos = site.type_of("x").shape[:-1], site.type_of("cos").shape[:-1]
    return broadcast(leading, cos) == leading


def _tables_are_alike(site: Site) -> bool:
    return site.type_of("cos") == site.type_of("sin")


_WHEN = (
    Precondition(
        "tables-widen-operand", _tables_do_not_widen, "the tables have axes that the operand lacks"
    ),
    Precondition("tables-differ", _tables_are_alike, "cosine and sine have different shapes"),
)


def _half_lhs(b: SideBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    first = b.add(Slice(h.last, 0, h.n), x)
    second = b.add(Slice(h.last, h.n, 2 * h.n), x)
    turned = b.add(Concat(h.last), b.add(Negate(), second), first)
    wide_cos = b.add(Concat(h.last_cos), cos, cos)
    wide_sin = b.add(Concat(h.last_sin), sin, sin)
    return b.add(Add(), b.add(Multiply(), x, wide_cos), b.add(Multiply(), turned, wide_sin))


def _rotated(b: SideBuilder, u: Value, v: Value, cos: Value, sin: Value) -> tuple[Value, Value]:
    first = b.add(Subtract(), b.add(Multiply(), u, cos), b.add(Multiply(), v, sin))
    second = b.add(Add(), b.add(Multiply(), v, cos), b.add(Multiply(), u, sin))
    return first, second


def _chunks_lhs(b: SideBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    u = b.add(Slice(h.last, 0, h.n), x)
    v = b.add(Slice(h.last, h.n, 2 * h.n), x)
    return b.add(Concat(h.last), *_rotated(b, u, v, cos, sin))


def _half_rhs(b: GraphBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    return b.add(Rotary(interleaved_in=False, interleaved_out=False), x, cos, sin)


HALF = Rule(
    name="rotary-half",
    identity="x · [c|c] + [-x₂|x₁] · [s|s]  =  rotary(x, c, s), pairs (i, i+n)",
    source=_SOURCE,
    operands={"x": "narrow: * 2*n", "cos": "narrow: * n", "sin": "narrow: * n"},
    spellings=(Spelling(_half_lhs), Spelling(_chunks_lhs)),
    rhs=_half_rhs,
    fidelity=Fidelity.REAL,
    when=_WHEN,
)


def _pairs(b: SideBuilder, h: Any, x: Value) -> tuple[Value, Value]:
    even = b.add(Slice(h.last, 0, 2 * h.n, 2), x)
    odd = b.add(Slice(h.last, 1, 2 * h.n, 2), x)
    return even, odd


def _interleaved_lhs(b: SideBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    first, second = _rotated(b, *_pairs(b, h, x), cos, sin)
    return b.add(Concat(h.last), first, second)


def _interleaved_rhs(b: GraphBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    return b.add(Rotary(interleaved_in=True, interleaved_out=False), x, cos, sin)


INTERLEAVED_TO_HALF = Rule(
    name="rotary-interleaved-to-half",
    identity="[u·c - v·s | v·c + u·s] with u, v = x₀,₂,‥, x₁,₃,‥  =  rotary(x, c, s)",
    source=_SOURCE,
    operands={"x": "narrow: * 2*n", "cos": "narrow: * n", "sin": "narrow: * n"},
    spellings=(Spelling(_interleaved_lhs),),
    rhs=_interleaved_rhs,
    fidelity=Fidelity.REAL,
    when=_WHEN,
)


def _stacked_lhs(b: SideBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    real, imaginary = _rotated(b, *_pairs(b, h, x), cos, sin)
    columns = b.add(Reshape(h.column), real), b.add(Reshape(h.column), imaginary)
    return b.add(Reshape(h.out), b.add(Concat(h.axis), *columns))


def _stacked_rhs(b: GraphBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    rotated = b.add(Rotary(interleaved_in=True, interleaved_out=True), x, cos, sin)
    return b.add(Reshape(h.out), rotated)


def _pairs_come_back(site: Site) -> bool:
    x, cos = site.type_of("x").shape, site.type_of("cos").shape
    leading = broadcast(x[:-1], cos[:-1])
    if leading is None:
        return False
    turned = (*leading, site.holes["n"])
    return site.holes["column"] == (*turned, 1) and site.holes["axis"] == len(turned)


INTERLEAVED = Rule(
    name="rotary-interleaved",
    identity="(u·c - v·s, v·c + u·s) side by side, u, v = x₀,₂,‥, x₁,₃,‥  =  rotary(x, c, s)",
    source=_SOURCE,
    operands={"x": "narrow: * 2*n", "cos": "narrow: * n", "sin": "narrow: * n"},
    spellings=(Spelling(_stacked_lhs),),
    rhs=_stacked_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {
        "column": (*sizes["lead"], sizes["n"], 1),
        "axis": len(sizes["lead"]) + 1,
        "out": (*sizes["lead"], 2 * sizes["n"]),
    },
    when=(
        Precondition(
            "pairs-are-not-neighbours",
            _pairs_come_back,
            "the two numbers of a pair do not become neighbours of the last axis",
        ),
        *_WHEN,
    ),
)
