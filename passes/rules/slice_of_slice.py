"""Cut once instead of twice, and join once instead of twice."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Concat, Slice
from ascendfx.ir.size import simplify_size
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _slice_lhs(b: SideBuilder, h: Any, x: Value) -> Value:
    part = b.add(Slice(h.axis, h.outer_start, h.outer_stop), x)
    return b.add(Slice(h.axis, h.start, h.stop, h.step), part)


def _slice_rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
    start = simplify_size(h.outer_start + h.start)
    return b.add(Slice(h.axis, start, simplify_size(h.outer_start + h.stop), h.step), x)


SLICE = Rule(
    name="slice-of-slice",
    identity="x[a:b][c:d:s]  =  x[a+c : a+d : s]",
    source="definition",
    operands={"x": "* k"},
    spellings=(Spelling(_slice_lhs),),
    rhs=_slice_rhs,
    fidelity=Fidelity.BITWISE,
    holes=lambda sizes: {
        "axis": len(sizes["lead"]),
        "outer_start": sizes["k"] // 3,
        "outer_stop": sizes["k"],
        "start": sizes["k"] // 4,
        "stop": sizes["k"] - sizes["k"] // 3,
        "step": 1,
    },
)


def _left(b: SideBuilder, h: Any, x: Value, y: Value, z: Value) -> Value:
    return b.add(Concat(h.axis), b.add(Concat(h.axis), x, y), z)


def _right(b: SideBuilder, h: Any, x: Value, y: Value, z: Value) -> Value:
    return b.add(Concat(h.axis), x, b.add(Concat(h.axis), y, z))


def _flat(b: GraphBuilder, h: Any, x: Value, y: Value, z: Value) -> Value:
    return b.add(Concat(h.axis), x, y, z)


CONCAT = Rule(
    name="concat-of-concat",
    identity="[[x|y]|z]  =  [x|[y|z]]  =  [x|y|z]",
    source="definition",
    operands={"x": "* k", "y": "* m", "z": "* n"},
    spellings=(Spelling(_left), Spelling(_right)),
    rhs=_flat,
    fidelity=Fidelity.BITWISE,
    holes=lambda sizes: {"axis": len(sizes["lead"])},
)
