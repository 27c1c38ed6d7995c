"""Scale the rows of a projection's result instead of the rows of its operand."""

from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import GroupedLinear, HeadLinear, Linear, Rotary
from ascendfx.ir.tensor_type import broadcast
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site
from ascendfx.passes.rules.hoist_scale import hoisting_rule

_rule = partial(
    hoisting_rule,
    identity="f(diag(s) x)  =  diag(s) f(x), f homogeneous in each row",
    source="Xiao et al., arXiv 2211.10438, eq. 2: a factor per token leaves the product",
)


def _linear(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Linear(), x, w)


def _head_linear(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(HeadLinear(), x, w)


def _grouped_linear(b: SideBuilder, h: Any, x: Value, w: Value, ends: Value) -> Value:
    return b.add(GroupedLinear(), x, w, ends)


def _rotary(b: SideBuilder, h: Any, x: Value, cos: Value, sin: Value) -> Value:
    return b.add(Rotary(interleaved_in=h.taken, interleaved_out=h.left), x, cos, sin)


def _scale_does_not_widen(site: Site) -> bool:
    leading = site.type_of("x").shape[:-1]
    return broadcast(leading, site.type_of("scale").shape[:-1]) == leading


LINEAR = _rule("hoist-row-scale-from-linear", _linear, {"x": "* k", "scale": "* 1", "w": "n k"})
HEAD_LINEAR = _rule(
    "hoist-row-scale-from-head-linear", _head_linear, {"x": "* g k", "scale": "* g 1", "w": "h n k"}
)
GROUPED_LINEAR = _rule(
    "hoist-row-scale-from-grouped-linear",
    _grouped_linear,
    {"x": "p k", "scale": "p 1", "w": "e n k", "ends": "i32: e"},
    below={"ends": "p"},
)
ROTARY = _rule(
    "hoist-row-scale-from-rotary",
    _rotary,
    {"x": "* 2*n", "scale": "* 1", "cos": "* n", "sin": "* n"},
    holes=lambda _: {"taken": True, "left": False},
    when=(
        Precondition(
            "scale-widens-operand",
            _scale_does_not_widen,
            "the scale has axes that the operand lacks",
        ),
    ),
)

RULES: tuple[Rule, ...] = (GROUPED_LINEAR, HEAD_LINEAR, LINEAR, ROTARY)
