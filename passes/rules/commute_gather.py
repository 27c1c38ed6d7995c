"""Choose rows before an operation that treats rows alike, or after it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Add, Cast, GatherRows, Linear, RmsNorm, ScatterRows, Swiglu
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling

_SOURCE = "an operation on rows does not look at their number; CloudMatrix384, arXiv 2506.12708"

_Function = Callable[..., Value]
"""``function(builder, holes, *rows, *others)``: row by row."""


def _chosen_last(
    b: SideBuilder, h: Any, ids: Value, *operands: Value, function: _Function, rows: int
) -> Value:
    return b.add(GatherRows(), function(b, h, *operands), ids)


def _chosen_first(
    b: SideBuilder, h: Any, ids: Value, *operands: Value, function: _Function, rows: int
) -> Value:
    chosen = (b.add(GatherRows(), each, ids) for each in operands[:rows])
    return function(b, h, *chosen, *operands[rows:])


def _linear(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Linear(), x, w)


def _norm(b: SideBuilder, h: Any, x: Value, gain: Value) -> Value:
    return b.add(RmsNorm(h.eps), x, gain)


def _cast(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Cast(h.format), x)


def _swiglu(b: SideBuilder, h: Any, gate: Value, up: Value) -> Value:
    return b.add(Swiglu(), gate, up)


def _add(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Add(), x, y)


def _holes(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"eps": 1e-5, "format": DType.F32, "index": DType.I32}


def _rule(
    name: str, function: _Function, operands: Mapping[str, str], *, rows: int, first: bool
) -> Rule:
    sides = [partial(side, function=function, rows=rows) for side in (_chosen_last, _chosen_first)]
    lhs, rhs = sides if first else sides[::-1]
    return Rule(
        name=f"gather-before-{name}" if first else f"gather-after-{name}",
        identity="f(x)[ids]  =  f(x[ids])" if first else "f(x[ids])  =  f(x)[ids]",
        source=_SOURCE,
        operands={"ids": "index: m", **operands},
        spellings=(Spelling(lhs),),
        rhs=rhs,
        fidelity=Fidelity.REAL if function is _linear else Fidelity.BITWISE,
        holes=_holes,
        below={"ids": "n"},
        proof=Proof.EXHAUSTIVE,
    )


_OPERANDS: Mapping[str, tuple[_Function, Mapping[str, str], int]] = {
    "linear": (_linear, {"x": "n k", "w": "l k"}, 1),
    "norm": (_norm, {"x": "n k", "gain": "k"}, 1),
    "cast": (_cast, {"x": "n k"}, 1),
    "swiglu": (_swiglu, {"gate": "n k", "up": "n k"}, 2),
    "add": (_add, {"x": "n k", "y": "n k"}, 2),
}

FIRST: tuple[Rule, ...] = tuple(
    _rule(name, function, operands, rows=rows, first=True)
    for name, (function, operands, rows) in _OPERANDS.items()
)
LAST: tuple[Rule, ...] = tuple(
    _rule(name, function, operands, rows=rows, first=False)
    for name, (function, operands, rows) in _OPERANDS.items()
)


def _scattered_first(
    b: SideBuilder, h: Any, ids: Value, *operands: Value, function: _Function
) -> Value:
    x, rows, *others = operands
    return function(b, h, b.add(ScatterRows(), x, ids, rows), *others)


def _scattered_last(
    b: SideBuilder, h: Any, ids: Value, *operands: Value, function: _Function
) -> Value:
    x, rows, *others = operands
    done = (function(b, h, each, *others) for each in (x, rows))
    table, values = done
    return b.add(ScatterRows(), table, ids, values)


def _scatter_rule(name: str, function: _Function, others: Mapping[str, str]) -> Rule:
    return Rule(
        name=f"scatter-after-{name}",
        identity="f(x with rows y at ids)  =  f(x) with rows f(y) at ids",
        source=_SOURCE,
        operands={"ids": "index: m", "x": "n k", "y": "m k", **others},
        spellings=(Spelling(partial(_scattered_first, function=function)),),
        rhs=partial(_scattered_last, function=function),
        fidelity=Fidelity.REAL if function is _linear else Fidelity.BITWISE,
        holes=_holes,
        below={"ids": "n"},
        proof=Proof.EXHAUSTIVE,
    )


SCATTER: tuple[Rule, ...] = (
    _scatter_rule("linear", _linear, {"w": "l k"}),
    _scatter_rule("cast", _cast, {}),
)

RULES: tuple[Rule, ...] = FIRST + LAST + SCATTER
