"""Multiply three matrices in the other order."""

from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Matmul
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_OPERANDS = {"x": "* m k", "a": "* k l", "c": "* l n"}
_SOURCE = "associativity of the matrix product"


def _from_the_left(b: SideBuilder, h: Any, x: Value, a: Value, c: Value) -> Value:
    return b.add(Matmul(), b.add(Matmul(), x, a), c)


def _from_the_right(b: SideBuilder, h: Any, x: Value, a: Value, c: Value) -> Value:
    return b.add(Matmul(), x, b.add(Matmul(), a, c))


TO_THE_RIGHT = Rule(
    name="associate-matmul-right",
    identity="(x A) B  =  x (A B)",
    source=_SOURCE,
    operands=_OPERANDS,
    spellings=(Spelling(_from_the_left),),
    rhs=_from_the_right,
    fidelity=Fidelity.REAL,
)

TO_THE_LEFT = Rule(
    name="associate-matmul-left",
    identity="x (A B)  =  (x A) B",
    source=_SOURCE,
    operands=_OPERANDS,
    spellings=(Spelling(_from_the_right),),
    rhs=_from_the_left,
    fidelity=Fidelity.REAL,
)
