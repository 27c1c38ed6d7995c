"""Add three values in the other order, so that the residual is added where a norm reads it."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Multiply
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _from_the_left(b: SideBuilder, h: Any, x: Value, y: Value, z: Value) -> Value:
    return b.add(Add(), b.add(Add(), x, y), z)


def _from_the_right(b: SideBuilder, h: Any, x: Value, y: Value, z: Value) -> Value:
    return b.add(Add(), x, b.add(Add(), y, z))


ASSOCIATE = Rule(
    name="associate-add",
    identity="(x + y) + z  =  x + (y + z)",
    source="associativity of the sum; error: Higham, Accuracy and Stability, section 4.2",
    operands={"x": "*", "y": "*", "z": "*"},
    spellings=(Spelling(_from_the_left),),
    rhs=_from_the_right,
    fidelity=Fidelity.REAL,
    cyclic=True,
)


def _each_scaled(b: SideBuilder, h: Any, x: Value, y: Value, scale: Value) -> Value:
    return b.add(Add(), b.add(Multiply(), x, scale), b.add(Multiply(), y, scale))


def _sum_scaled(b: GraphBuilder, h: Any, x: Value, y: Value, scale: Value) -> Value:
    return b.add(Multiply(), b.add(Add(), x, y), scale)


FACTOR_OUT = Rule(
    name="factor-out-scale",
    identity="s · x + s · y  =  s · (x + y)",
    source="distributivity",
    operands={"x": "*", "y": "*", "scale": "*"},
    spellings=(Spelling(_each_scaled),),
    rhs=_sum_scaled,
    fidelity=Fidelity.REAL,
)
