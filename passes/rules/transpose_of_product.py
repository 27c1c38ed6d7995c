"""Multiply transposed matrices in the other order instead of transposing their product."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Linear, Matmul, Transpose
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling

_SOURCE = "transpose of a matrix product"


def _swap(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _matmul_lhs(b: SideBuilder, h: Any, a: Value, c: Value) -> Value:
    return b.add(Transpose(h.permutation), b.add(Matmul(), a, c))


def _matmul_rhs(b: GraphBuilder, h: Any, a: Value, c: Value) -> Value:
    turned = (b.add(Transpose(_swap(b.type_of(each).rank)), each) for each in (c, a))
    return b.add(Matmul(), *turned)


def _swaps_rows_and_columns(site: Site) -> bool:
    permutation = site.holes["permutation"]
    return permutation == _swap(len(permutation))


MATMUL = Rule(
    name="transpose-of-matmul",
    identity="(A B)ᵀ  =  Bᵀ Aᵀ",
    source=_SOURCE,
    operands={"a": "* m k", "c": "* k n"},
    spellings=(Spelling(_matmul_lhs),),
    rhs=_matmul_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda sizes: {"permutation": _swap(len(sizes["lead"]) + 2)},
    when=(
        Precondition(
            "permutes-other-axes",
            _swaps_rows_and_columns,
            "the transpose does more than to swap rows and columns",
        ),
    ),
)


def _linear_lhs(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Transpose((1, 0)), b.add(Linear(), x, w))


def _linear_rhs(b: GraphBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Linear(), w, x)


LINEAR = Rule(
    name="transpose-of-linear",
    identity="(x Wᵀ)ᵀ  =  W xᵀ",
    source=_SOURCE,
    operands={"x": "m k", "w": "n k"},
    spellings=(Spelling(_linear_lhs),),
    rhs=_linear_rhs,
    fidelity=Fidelity.REAL,
)
