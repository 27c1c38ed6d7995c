"""Leave out what is added to all scores of a softmax alike."""

import math
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Constant, ReduceMax, Softmax, Subtract
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling

_SOURCE = "e^(a + c) = e^a e^c; Milakov and Gimelshein, arXiv 1805.02867, section 2"


def _added(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Softmax(h.axis), b.add(Add(), x, b.add(Constant(h.shift, h.format))))


def _subtracted(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Softmax(h.axis), b.add(Subtract(), x, b.add(Constant(h.shift, h.format))))


def _rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(Softmax(h.axis), x)


def _shift_is_finite(site: Site) -> bool:
    return math.isfinite(site.holes["shift"])


BY_CONSTANT = Rule(
    name="softmax-of-shifted",
    identity="softmax(x + c)  =  softmax(x), c one number",
    source=_SOURCE,
    operands={"x": "format: * k"},
    spellings=(Spelling(_added), Spelling(_subtracted)),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"axis": len(sizes["lead"]), "shift": 1.25, "format": DType.F32},
    when=(
        Precondition(
            "shift-is-infinite", _shift_is_finite, "an infinite shift leaves no scores to compare"
        ),
    ),
)


def _maximum(b: SideBuilder, h: Any, x: Value) -> Value:
    top = b.add(ReduceMax((h.axis,)), x)
    return b.add(Softmax(h.axis), b.add(Subtract(), x, top))


BY_MAXIMUM = Rule(
    name="softmax-of-shifted-by-maximum",
    identity="softmax(x - max x)  =  softmax(x)",
    source=_SOURCE,
    operands={"x": "* k"},
    spellings=(Spelling(_maximum),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"axis": len(sizes["lead"])},
    proof=Proof.CASES,
)
