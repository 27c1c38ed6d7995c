"""Write a product with a matrix as a projection, whose weight is stored transposed."""

from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Linear, Matmul, Transpose
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling

_OPERANDS = {"x": "* m k", "w": "k n"}
_SOURCE = "definition of both operations"


def _matmul(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Matmul(), x, w)


def _linear(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Linear(), x, b.add(Transpose((1, 0)), w))


AS_LINEAR = Rule(
    name="matmul-as-linear",
    identity="x W  =  linear(x, Wᵀ)",
    source=_SOURCE,
    operands=_OPERANDS,
    spellings=(Spelling(_matmul),),
    rhs=_linear,
    fidelity=Fidelity.REAL,
)

AS_MATMUL = Rule(
    name="linear-as-matmul",
    identity="linear(x, Wᵀ)  =  x W",
    source=_SOURCE,
    operands=_OPERANDS,
    spellings=(Spelling(_linear),),
    rhs=_matmul,
    fidelity=Fidelity.REAL,
)
