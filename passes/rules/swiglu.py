"""Recognise the gated activation."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Multiply, Sigmoid, Silu, Swiglu
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.read_elsewhere import INTERMEDIATE_IS_READ_ELSEWHERE
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _silu(b: SideBuilder, h: Any, gate: Value, up: Value) -> Value:
    return b.add(Multiply(), b.add(Silu(), gate), up)


def _sigmoid(b: SideBuilder, h: Any, gate: Value, up: Value) -> Value:
    return b.add(Multiply(), b.add(Multiply(), gate, b.add(Sigmoid(), gate)), up)


def _sigmoid_last(b: SideBuilder, h: Any, gate: Value, up: Value) -> Value:
    return b.add(Multiply(), b.add(Multiply(), gate, up), b.add(Sigmoid(), gate))


def _rhs(b: GraphBuilder, h: Any, gate: Value, up: Value) -> Value:
    return b.add(Swiglu(), gate, up)


def _no_broadcast(site: Site) -> bool:
    return site.type_of("gate") == site.type_of("up")


RULE = Rule(
    name="swiglu",
    identity="silu(gate) · up  =  swiglu(gate, up)",
    source="definition; Shazeer, arXiv 2002.05202, eq. 5",
    operands={"gate": "* k", "up": "* k"},
    spellings=(Spelling(_silu), Spelling(_sigmoid), Spelling(_sigmoid_last)),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    when=(
        Precondition("shapes-differ", _no_broadcast, "gate and up have different shapes"),
        INTERMEDIATE_IS_READ_ELSEWHERE,
    ),
)
