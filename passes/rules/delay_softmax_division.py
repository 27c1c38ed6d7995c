"""Divide the weighted sum of the values by the sum of the weights, not every weight."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Divide, Exp, Matmul, ReduceMax, ReduceSum, Softmax, Subtract
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, scores: Value, values: Value) -> Value:
    return b.add(Matmul(), b.add(Softmax(h.last), scores), values)


def _rhs(b: GraphBuilder, h: Any, scores: Value, values: Value) -> Value:
    top = b.add(ReduceMax((h.last,)), scores)
    weights = b.add(Exp(), b.add(Subtract(), scores, top))
    total = b.add(ReduceSum((h.last,)), weights)
    return b.add(Divide(), b.add(Matmul(), weights, values), total)


def _sums_in_single_precision(site: Site) -> bool:
    return site.type_of("scores").dtype in (DType.F32, DType.F64)


RULE = Rule(
    name="delay-softmax-division",
    identity="softmax(S) V  =  (e^(S - max S) V) / Σ e^(S - max S)",
    source="Milakov and Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135, section 3.1",
    operands={"scores": "* m s", "values": "* s n"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    proof=Proof.CASES,
    when=(
        Precondition(
            "half-precision",
            _sums_in_single_precision,
            "the sum of the weights would be rounded to a format narrower than f32",
        ),
    ),
)
