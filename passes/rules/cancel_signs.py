"""Leave out signs that cancel."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Negate, Subtract
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_SOURCE = "IEEE 754: the sign of an operand turns without rounding"


def _twice(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Negate(), b.add(Negate(), x))


def _itself(b: GraphBuilder, h: Any, x: Value) -> Value:
    return x


TWICE = Rule(
    name="negate-twice",
    identity="-(-x)  =  x",
    source=_SOURCE,
    operands={"x": "* k"},
    spellings=(Spelling(_twice),),
    rhs=_itself,
    fidelity=Fidelity.BITWISE,
)


def _added(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Add(), x, b.add(Negate(), y))


def _difference(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Subtract(), x, y)


ADDED = Rule(
    name="add-of-negated",
    identity="x + (-y)  =  x - y",
    source=_SOURCE,
    operands={"x": "* k", "y": "* j"},
    spellings=(Spelling(_added),),
    rhs=_difference,
    fidelity=Fidelity.BITWISE,
)


def _subtracted(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Subtract(), x, b.add(Negate(), y))


def _sum(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Add(), x, y)


SUBTRACTED = Rule(
    name="subtract-of-negated",
    identity="x - (-y)  =  x + y",
    source=_SOURCE,
    operands={"x": "* k", "y": "* j"},
    spellings=(Spelling(_subtracted),),
    rhs=_sum,
    fidelity=Fidelity.BITWISE,
)
