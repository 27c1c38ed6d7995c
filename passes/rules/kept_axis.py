"""Keep a reduced axis instead of adding it again."""

from functools import partial
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import ReduceMax, ReduceMean, ReduceSum, Reshape
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling

_Reduction = type[ReduceMax] | type[ReduceMean] | type[ReduceSum]


def _lhs(b: SideBuilder, h: Any, x: Value, reduction: _Reduction) -> Value:
    return b.add(Reshape(h.shape), b.add(reduction((h.last,), keep=False), x))


def _rhs(b: GraphBuilder, h: Any, x: Value) -> Value:
    return b.add(h.reduction((h.last,)), x)


def _axis_is_last(site: Site) -> bool:
    return site.holes["shape"] == (*site.type_of("x").shape[:-1], 1)


def _rule(name: str, what: str, reductions: tuple[_Reduction, ...], proof: Proof) -> Rule:
    return Rule(
        name=name,
        identity=f"reshape({what} x, [.., 1])  =  {what} x with the axis kept",
        source="definition",
        operands={"x": "* k"},
        spellings=tuple(
            Spelling(partial(_lhs, reduction=each), {"reduction": each}) for each in reductions
        ),
        rhs=_rhs,
        fidelity=Fidelity.BITWISE,
        holes=lambda sizes: {"shape": (*sizes["lead"], 1)},
        proof=proof,
        when=(
            Precondition("axis-is-elsewhere", _axis_is_last, "the new axis is not the reduced one"),
        ),
    )


SUM = _rule("kept-axis", "Σ", (ReduceMean, ReduceSum), Proof.SYMBOLIC)
MAXIMUM = _rule("kept-axis-of-maximum", "max", (ReduceMax,), Proof.CASES)
