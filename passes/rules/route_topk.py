"""Recognise the router of a mixture of experts: DeepSeek-V2, DeepSeek-V3 and plain top-k."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Cast,
    Constant,
    Divide,
    Expand,
    Multiply,
    ReduceMax,
    ReduceSum,
    Reshape,
    RouteTopk,
    ScatterAlong,
    Select,
    Sigmoid,
    Softmax,
    TakeAlong,
    Topk,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling

_Pair = tuple[Value, Value]


def _lhs(
    b: SideBuilder,
    h: Any,
    logits: Value,
    *bias: Value,
    scoring: str,
    group_score: str,
    single: bool,
    gathered: bool,
    normalize: bool,
    scaled: bool,
) -> _Pair:
    scores = b.add(Sigmoid() if scoring == "sigmoid" else Softmax(h.last), logits)
    choice = b.add(Add(), scores, *bias) if bias else scores
    if group_score:
        limit = _limit_single if single else partial(_limit_groups, group_score=group_score)
        choice = limit(b, h, choice)
    values, ids = b.add_multi(Topk(h.k), choice)
    weights = b.add(TakeAlong(h.last), scores, ids) if gathered else values
    if normalize:
        total = b.add(ReduceSum((h.last,)), weights)
        tiny = b.add(Constant(1e-20, h.format))
        weights = b.add(Divide(), weights, b.add(Add(), total, tiny))
    if scaled:
        weights = b.add(Multiply(), weights, b.add(Constant(h.scale, h.format)))
    return weights, ids


def _limit_groups(b: SideBuilder, h: Any, choice: Value, *, group_score: str) -> Value:
    grouped = b.add(Reshape(h.grouped), choice)
    if group_score == "top2_sum":
        best = b.add(ReduceSum((h.last + 1,), keep=False), b.add_multi(Topk(2), grouped)[0])
    else:
        best = b.add(ReduceMax((h.last + 1,), keep=False), grouped)
    mask = _mask_of_groups(b, h, best, h.topk_groups, h.zeros)
    wide = b.add(Expand(h.grouped), b.add(Reshape(h.column), mask))
    return _keep(b, h, b.add(Reshape(h.flat), wide), choice)


def _limit_single(b: SideBuilder, h: Any, choice: Value) -> Value:
    """Groups of one expert: nothing repeats, so the mask of groups is that of experts."""
    best = b.add(ReduceMax((h.last + 1,), keep=False), b.add(Reshape(h.singles), choice))
    return _keep(b, h, _mask_of_groups(b, h, best, h.topk_singles, h.flat), choice)


def _mask_of_groups(b: SideBuilder, h: Any, best: Value, count: Any, zeros: Any) -> Value:
    _, kept = b.add_multi(Topk(count), best)
    nothing = b.add(Expand(zeros), b.add(Constant(0.0, h.format)))
    return b.add(ScatterAlong(h.last), nothing, kept, b.add(Constant(1.0, h.format)))


def _keep(b: SideBuilder, h: Any, mask: Value, choice: Value) -> Value:
    stays = b.add(Cast(DType.BOOL), mask)
    return b.add(Select(), stays, choice, b.add(Constant(h.masked_value, h.format)))


def _rhs(b: GraphBuilder, h: Any, logits: Value, *bias: Value) -> tuple[Value, ...]:
    op = RouteTopk(
        k=h.k,
        scoring=h.scoring,
        biased=bool(bias),
        normalize=h.normalize,
        scale=float(h.scale),
    )
    if h.group_score:
        op = replace(
            op,
            groups=h.singles[-2] if h.single else h.grouped[-2],
            topk_groups=h.topk_singles if h.single else h.topk_groups,
            group_score=h.group_score,
            masked_value=float(h.masked_value),
        )
    return b.add_multi(op, logits, *bias)


def _groups_are_contiguous(site: Site) -> bool:
    if not site.holes["group_score"]:
        return True
    shape = site.type_of("logits").shape
    if site.holes["single"]:
        return site.holes["singles"] == (*shape, 1) and site.holes["flat"] == shape
    grouped = site.holes["grouped"]
    return (
        len(grouped) == len(shape) + 1
        and grouped[-2] * grouped[-1] == shape[-1]
        and site.holes["zeros"] == grouped[:-1]
        and site.holes["column"] == (*grouped[:-1], 1)
        and site.holes["flat"] == shape
    )


def _kept_groups_have_enough(site: Site) -> bool:
    if not site.holes["group_score"]:
        return True
    if site.holes["single"]:
        return site.holes["k"] <= site.holes["topk_singles"]
    return site.holes["k"] <= site.holes["topk_groups"] * site.holes["grouped"][-1]


def _masked_experts_lose(site: Site) -> bool:
    if site.holes["gathered"] or not site.holes["group_score"]:
        return True
    return site.holes["masked_value"] <= 0  # scores are positive


def _scored_in_single_precision(site: Site) -> bool:
    return site.holes["format"] in (DType.F32, DType.F64)


_WHEN = (
    Precondition(
        "scores-in-half-precision",
        _scored_in_single_precision,
        "the scores are rounded to less than f32: the operation would choose other experts",
    ),
    Precondition(
        "groups-are-not-contiguous",
        _groups_are_contiguous,
        "the groups are not equal runs of neighbouring experts",
    ),
    Precondition(
        "groups-have-too-few-experts",
        _kept_groups_have_enough,
        "more experts are chosen than the kept groups have",
    ),
)


def _spellings(*, biased: bool) -> tuple[Spelling, ...]:
    """Return every combination of the choices; those that compute more come first."""
    choices = product(
        ("sigmoid", "softmax"),
        (("top2_sum", False), ("max", False), ("max", True), ("", False)),
        (True,) if biased else (True, False),
        (True, False),
        (True, False),
    )
    names = ("scoring", "group_score", "single", "gathered", "normalize", "scaled")
    spellings: list[Spelling] = []
    for scoring, groups, *rest in choices:
        options: dict[str, Any] = dict(zip(names, (scoring, *groups, *rest), strict=True))
        lhs: Callable[..., _Pair] = partial(_lhs, **options)
        unscaled = {} if options["scaled"] else {"scale": 1.0}
        spellings.append(Spelling(lhs, {**options, **unscaled}))
    return tuple(spellings)


def _holes(sizes: Any) -> dict[str, Any]:
    lead, experts = sizes["lead"], sizes["e"]
    groups = 2 if experts % 2 == 0 and experts >= 4 else 1
    each = experts // groups
    topk_groups = (groups + 1) // 2
    return {
        "k": min(2, topk_groups * each),
        "topk_groups": topk_groups,
        "masked_value": 0.0,
        "scale": 2.5,
        "grouped": (*lead, groups, each),
        "zeros": (*lead, groups),
        "column": (*lead, groups, 1),
        "flat": (*lead, experts),
        "singles": (*lead, experts, 1),
        "topk_singles": min(2, experts),
        "format": DType.F32,
    }


BIASED = Rule(
    name="route-topk-biased",
    identity="the experts with the largest score + bias, weighted by score  =  route_topk",
    source="definition; DeepSeek-V3, arXiv 2412.19437, section 2.1.2, eqs. 12 to 16",
    operands={"logits": "format: * e", "bias": "format: e"},
    spellings=_spellings(biased=True),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=_holes,
    minimum={"e": 2},
    proof=Proof.CASES,
    when=_WHEN,
)

UNBIASED = Rule(
    name="route-topk",
    identity="the experts with the largest score, weighted by it  =  route_topk",
    source="definition; DeepSeek-V2, arXiv 2405.04434, section 2.1.2 and 2.2.2",
    operands={"logits": "format: * e"},
    spellings=_spellings(biased=False),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    holes=_holes,
    minimum={"e": 2},
    proof=Proof.CASES,
    when=(
        *_WHEN,
        Precondition(
            "masked-experts-may-win",
            _masked_experts_lose,
            "experts of dropped groups get a value that may be among the largest, and as weight",
        ),
    ),
)
