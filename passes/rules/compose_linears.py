"""Make one projection of two that follow each other, and the reverse."""

from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Linear, Matmul
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_OPERANDS = {"x": "* k", "a": "m k", "c": "n m"}
_SOURCE = "associativity of the matrix product"


def _two(b: SideBuilder, h: Any, x: Value, a: Value, c: Value) -> Value:
    return b.add(Linear(), b.add(Linear(), x, a), c)


def _one(b: SideBuilder, h: Any, x: Value, a: Value, c: Value) -> Value:
    return b.add(Linear(), x, b.add(Matmul(), c, a))


COMPOSE = Rule(
    name="compose-linears",
    identity="(x Aᵀ) Bᵀ  =  x (B A)ᵀ",
    source=_SOURCE,
    operands=_OPERANDS,
    spellings=(Spelling(_two),),
    rhs=_one,
    fidelity=Fidelity.REAL,
)

FACTOR = Rule(
    name="factor-linear",
    identity="x (B A)ᵀ  =  (x Aᵀ) Bᵀ",
    source=_SOURCE,
    operands=_OPERANDS,
    spellings=(Spelling(_one),),
    rhs=_two,
    fidelity=Fidelity.REAL,
)
