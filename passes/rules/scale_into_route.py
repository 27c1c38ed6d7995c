"""Let the router apply the factor of the routed experts."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Constant, Multiply, RouteTopk
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.normal_numbers import SCALE_OUT_OF_RANGE
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling


def _route(h: Any, scale: Any, *, biased: bool) -> RouteTopk:
    return RouteTopk(
        k=h.k,
        scoring=h.scoring,
        biased=biased,
        groups=h.groups,
        topk_groups=h.topk_groups,
        group_score=h.group_score,
        masked_value=h.masked_value,
        normalize=h.normalize,
        scale=scale,
    )


def _lhs(b: SideBuilder, h: Any, *operands: Value, biased: bool) -> tuple[Value, Value]:
    weights, ids = b.add_multi(_route(h, h.scale, biased=biased), *operands)
    return b.add(Multiply(), weights, b.add(Constant(h.factor, h.format))), ids


def _rhs(b: SideBuilder, h: Any, *operands: Value, biased: bool) -> tuple[Value, ...]:
    return b.add_multi(_route(h, h.scale * h.factor, biased=biased), *operands)


def _holes(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "k": 2,
        "scoring": "sigmoid",
        "groups": 1,
        "topk_groups": 1,
        "group_score": "max",
        "masked_value": 0.0,
        "normalize": True,
        "scale": 0.5,
        "factor": 2.5,
        "format": DType.F32,
    }


def _rule(name: str, operands: Mapping[str, str], *, biased: bool) -> Rule:
    return Rule(
        name=name,
        identity="s · route_topk(x; scale)  =  route_topk(x; s · scale), the experts as they were",
        source="definition; DeepSeek-V3, arXiv 2412.19437, section 2.1.2, eqs. 12 to 16",
        operands=operands,
        spellings=(Spelling(partial(_lhs, biased=biased)),),
        rhs=partial(_rhs, biased=biased),
        fidelity=Fidelity.REAL,
        holes=_holes,
        minimum={"e": 2},
        proof=Proof.CASES,
        when=(SCALE_OUT_OF_RANGE,),
    )


BIASED = _rule("scale-into-route-biased", {"x": "format: * e", "bias": "format: e"}, biased=True)
UNBIASED = _rule("scale-into-route", {"x": "format: * e"}, biased=False)
