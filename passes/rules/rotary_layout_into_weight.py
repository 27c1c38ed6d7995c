"""Order the rows of a weight so that the pairs of a rotation need not be interleaved."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, HeadLinear, Linear, Multiply, Reshape, Rotary, Transpose
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_SOURCE = "Su et al., arXiv 2104.09864, eq. 34: the planes of rotation may be numbered anew"

_Project = Callable[..., Value]
"""``project(builder, holes, x, *weights)``: rows of the first axis but one are columns of y."""


def _linear(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Linear(), x, w)


def _biased(b: SideBuilder, h: Any, x: Value, w: Value, bias: Value) -> Value:
    return b.add(Add(), b.add(Linear(), x, w), bias)


def _scaled(b: SideBuilder, h: Any, x: Value, w: Value, scale: Value) -> Value:
    return b.add(Multiply(), b.add(Linear(), x, w), scale)


def _heads(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Reshape((h.r, h.h, 2 * h.n)), b.add(Linear(), x, w))


def _head_linear(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(HeadLinear(), x, w)


def _lhs(b: SideBuilder, h: Any, *operands: Value, project: _Project) -> Value:
    cos, sin, *others = operands
    y = project(b, h, *others)
    return b.add(Rotary(interleaved_in=True, interleaved_out=h.left), y, cos, sin)


def _rhs(
    b: GraphBuilder, h: Any, *operands: Value, project: _Project, heads: tuple[str, ...]
) -> Value:
    cos, sin, x, *weights = operands
    y = project(b, h, x, *(_halves(b, h, each, heads) for each in weights))
    return b.add(Rotary(interleaved_in=False, interleaved_out=h.left), y, cos, sin)


def _halves(b: GraphBuilder, h: Any, w: Value, heads: tuple[str, ...]) -> Value:
    """Put rows 0, 2, 4.. of each head before rows 1, 3, 5.. of it."""
    kind = b.type_of(w)
    lead = tuple(getattr(h, letter) for letter in heads)
    rest = kind.shape[1:] if kind.rank < 3 else kind.shape[2:]
    pairs = b.add(Reshape((*lead, h.n, 2, *rest)), w)
    first = len(lead)
    order = (*range(first), first + 1, first, *range(first + 2, first + 2 + len(rest)))
    return b.add(Reshape(kind.shape), b.add(Transpose(order), pairs))


def _rule(
    name: str, project: _Project, operands: Mapping[str, str], *, heads: tuple[str, ...] = ()
) -> Rule:
    return Rule(
        name=f"rotary-layout-into-{name}",
        identity="rotary of pairs (2i, 2i+1) of x Wᵀ  =  rotary of pairs (i, i+n) of x (P W)ᵀ",
        source=_SOURCE,
        operands={"cos": "* n", "sin": "* n", **operands},
        spellings=(Spelling(partial(_lhs, project=project)),),
        rhs=partial(_rhs, project=project, heads=heads),
        fidelity=Fidelity.REAL,
        holes=lambda _: {"left": False},
    )


_BY_HEAD = {"cos": "r i n", "sin": "r i n"}

RULES: tuple[Rule, ...] = (
    _rule("weight", _linear, {"x": "* k", "w": "2*n k"}),
    _rule("weight-and-bias", _biased, {"x": "* k", "w": "2*n k", "bias": "2*n"}),
    _rule("weight-and-scale", _scaled, {"x": "* k", "w": "2*n k", "scale": "2*n"}),
    _rule("weight-of-heads", _heads, {**_BY_HEAD, "x": "r k", "w": "2*h*n k"}, heads=("h",)),
    _rule("head-weight", _head_linear, {**_BY_HEAD, "x": "r g k", "w": "h 2*n k"}, heads=("h",)),
)
