"""Go from the attended latent to the hidden state at once, without making values in between."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, Linear, Matmul, Reshape, Transpose
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, values: Value, w: Value) -> Value:
    heads = b.add(HeadLinear(), x, values)
    return b.add(Linear(), b.add(Reshape((h.r, h.h * h.d)), heads), w)


def _rhs(b: GraphBuilder, h: Any, x: Value, values: Value, w: Value) -> Value:
    per_head = b.add(Transpose((1, 0, 2)), b.add(Reshape((h.n, h.h, h.d)), w))
    product = b.add(Transpose((1, 0, 2)), b.add(Matmul(), per_head, values))
    joined = b.add(Reshape((h.n, h.h * h.c)), product)
    return b.add(Linear(), b.add(Reshape((h.r, h.h * h.c)), x), joined)


RULE = Rule(
    name="absorb-into-output-projection",
    identity="Σ_h (x_h V_hᵀ) W_hᵀ  =  Σ_h x_h (W_h V_h)ᵀ",
    source="DeepSeek-V2, arXiv 2405.04434, section 2.1.2: W_UV is absorbed into W_O",
    operands={"x": "r h c", "values": "h d c", "w": "n h*d"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
)
