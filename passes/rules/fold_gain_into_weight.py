"""Scale the columns of a weight instead of the normed values in front of it."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Constant, Expand, Linear, Multiply, Param, RmsNorm
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, gain: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(RmsNorm(h.eps), x, gain), w)


def _rhs(b: GraphBuilder, h: Any, x: Value, gain: Value, w: Value) -> Value:
    one = b.add(Constant(1.0, b.type_of(gain).dtype))
    unit = b.add(RmsNorm(h.eps), x, b.add(Expand((h.k,)), one))
    return b.add(Linear(), unit, b.add(Multiply(), w, gain))


def _gain_is_a_parameter(site: Site) -> bool:
    return isinstance(site.graph.op_of(site.bound["gain"]), Param)


def _only_linears_read_the_norm(site: Site) -> bool:
    (root,) = site.outputs
    normed = site.graph.nodes[root.node].operands[0]
    readers = [site.graph.nodes[position] for position in site.graph.uses[normed]]
    return normed not in site.graph.outputs and all(
        isinstance(reader.op, Linear) and reader.operands[1] != normed for reader in readers
    )


RULE = Rule(
    name="fold-gain-into-weight",
    identity="(norm(x) ⊙ g) Wᵀ  =  norm(x) (W diag(g))ᵀ",
    source="diagonal matrices are associative, too; QuaRot, arXiv 2404.00456, section 3.1",
    operands={"x": "* k", "gain": "k", "w": "n k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=lambda _: {"eps": 1e-5},
    cyclic=True,
    when=(
        Precondition(
            "gain-is-no-parameter",
            _gain_is_a_parameter,
            "the gain is no parameter, so that the scaled weight would be computed in every step",
        ),
        Precondition(
            "another-reader",
            _only_linears_read_the_norm,
            "the normed value has a reader that is no projection and needs the gain",
        ),
    ),
)
