"""Add before a projection instead of after it."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Concat, Linear, Slice
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling

_SOURCE = "a matrix product is linear in both factors"


def _one_weight_lhs(b: SideBuilder, h: Any, x: Value, y: Value, w: Value) -> Value:
    return b.add(Add(), b.add(Linear(), x, w), b.add(Linear(), y, w))


def _one_weight_rhs(b: GraphBuilder, h: Any, x: Value, y: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(Add(), x, y), w)


ONE_WEIGHT = Rule(
    name="sum-of-linears-with-one-weight",
    identity="x Wᵀ + y Wᵀ  =  (x + y) Wᵀ",
    source=_SOURCE,
    operands={"x": "* k", "y": "* k", "w": "n k"},
    spellings=(Spelling(_one_weight_lhs),),
    rhs=_one_weight_rhs,
    fidelity=Fidelity.REAL,
)


def _one_input_lhs(b: SideBuilder, h: Any, x: Value, v: Value, w: Value) -> Value:
    return b.add(Add(), b.add(Linear(), x, v), b.add(Linear(), x, w))


def _one_input_rhs(b: GraphBuilder, h: Any, x: Value, v: Value, w: Value) -> Value:
    return b.add(Linear(), x, b.add(Add(), v, w))


ONE_INPUT = Rule(
    name="sum-of-linears-of-one-input",
    identity="x Vᵀ + x Wᵀ  =  x (V + W)ᵀ",
    source=_SOURCE,
    operands={"x": "* k", "v": "n k", "w": "n k"},
    spellings=(Spelling(_one_input_lhs),),
    rhs=_one_input_rhs,
    fidelity=Fidelity.REAL,
)


def _apart(b: SideBuilder, h: Any, x: Value, y: Value, v: Value, w: Value) -> Value:
    return b.add(Add(), b.add(Linear(), x, v), b.add(Linear(), y, w))


def _joined(b: GraphBuilder, h: Any, x: Value, y: Value, v: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(Concat(h.last), x, y), b.add(Concat(1), v, w))


def _same_leading_axes(site: Site) -> bool:
    return site.type_of("x").shape[:-1] == site.type_of("y").shape[:-1]


JOIN = Rule(
    name="join-summed-linears",
    identity="x Vᵀ + y Wᵀ  =  [x|y] [V|W]ᵀ",
    source="product of block matrices",
    operands={"x": "* k", "y": "* l", "v": "n k", "w": "n l"},
    spellings=(Spelling(_apart),),
    rhs=_joined,
    fidelity=Fidelity.REAL,
    when=(
        Precondition(
            "leading-axes-differ",
            _same_leading_axes,
            "the inputs have different leading axes and cannot be joined",
        ),
    ),
)


def _of_concat(b: SideBuilder, h: Any, x: Value, y: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(Concat(h.last), x, y), w)


def _split(b: GraphBuilder, h: Any, x: Value, y: Value, w: Value) -> Value:
    first = b.add(Linear(), x, b.add(Slice(1, 0, h.k), w))
    return b.add(Add(), first, b.add(Linear(), y, b.add(Slice(1, h.k, h.k + h.l), w)))


SPLIT = Rule(
    name="split-linear-of-concat",
    identity="[x|y] [V|W]ᵀ  =  x Vᵀ + y Wᵀ",
    source="product of block matrices",
    operands={"x": "* k", "y": "* l", "w": "n k+l"},
    spellings=(Spelling(_of_concat),),
    rhs=_split,
    fidelity=Fidelity.REAL,
)
