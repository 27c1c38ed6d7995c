"""Recognise scaled dot-product attention, with and without a mask."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import (
    Add,
    Attention,
    Cast,
    Constant,
    Divide,
    Matmul,
    Multiply,
    Reshape,
    Softmax,
    Transpose,
)
from ascendfx.ir.tensor_type import DType, broadcast
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.read_elsewhere import INTERMEDIATE_IS_READ_ELSEWHERE
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling

_HEADS_INSIDE = (0, 2, 1, 3)
_KEYS_INSIDE = (0, 3, 1, 2)
_SOURCE = "definition; Vaswani et al., arXiv 1706.03762, eq. 1"

_Scale = Callable[[SideBuilder, Any, Value], Value]


def _multiplied(b: SideBuilder, h: Any, scores: Value) -> Value:
    return b.add(Multiply(), scores, b.add(Constant(h.factor, h.narrow)))


def _divided(b: SideBuilder, h: Any, scores: Value) -> Value:
    return b.add(Divide(), scores, b.add(Constant(h.factor, h.narrow)))


def _unscaled(b: SideBuilder, h: Any, scores: Value) -> Value:
    return scores


def _lhs(b: SideBuilder, h: Any, *operands: Value, scale: _Scale, casts: bool) -> Value:
    q, kt, v, *mask = operands
    scores = scale(b, h, b.add(Matmul(), q, kt))
    if mask:
        scores = b.add(Add(), scores, *mask)
    if casts:
        weights = b.add(Softmax(3), b.add(Cast(h.wide), scores))
        return b.add(Matmul(), b.add(Cast(h.narrow), weights), v)
    return b.add(Matmul(), b.add(Softmax(3), scores), v)


def _attend(b: GraphBuilder, h: Any, q: Value, kt: Value, v: Value, *mask: Value) -> Value:
    scale = 1 / h.factor if h.reciprocal else h.factor
    y = b.add(
        Attention(parts=1, scale=float(scale), masked=bool(mask)),
        b.add(Transpose(_HEADS_INSIDE), q),
        b.add(Transpose(_KEYS_INSIDE), kt),
        b.add(Transpose(_HEADS_INSIDE), v),
        *mask,
    )
    return b.add(Transpose(_HEADS_INSIDE), y)


def _masked_attend(b: GraphBuilder, h: Any, q: Value, kt: Value, v: Value, mask: Value) -> Value:
    shape = b.type_of(mask).shape
    if len(shape) < 4:
        mask = b.add(Reshape((1,) * (4 - len(shape)) + shape), mask)
    return _attend(b, h, q, kt, v, mask)


def _softmax_in_single_precision(site: Site) -> bool:
    narrow = site.holes["narrow"]
    return narrow.is_float and site.holes.get("wide", narrow) in (DType.F32, DType.F64)


def _heads_are_numbers(site: Site) -> bool:
    q, v = site.type_of("q").shape, site.type_of("v").shape
    return all(isinstance(size, int) for size in (q[1], q[3], v[3]))


def _scale_is_a_number(site: Site) -> bool:
    return site.holes["factor"] != 0 or not site.holes["reciprocal"]


def _mask_does_not_widen(site: Site) -> bool:
    q, context = site.type_of("q"), site.type_of("kt").shape[3]
    scores = (*q.shape[:3], context)
    return broadcast(scores, site.type_of("mask").shape) == scores


_WIDE = Precondition(
    "softmax-in-half-precision",
    _softmax_in_single_precision,
    "the softmax is taken in another format than f32",
)
_NUMBERS = Precondition(
    "heads-vary-with-tokens",
    _heads_are_numbers,
    "the number or size of heads depends on the number of tokens",
)
_SCALED = Precondition(
    "divides-by-zero", _scale_is_a_number, "the scores are divided by zero: no scale does that"
)


def _spellings() -> tuple[Spelling, ...]:
    kinds: tuple[tuple[_Scale, dict[str, Any]], ...] = (
        (_multiplied, {"reciprocal": False}),
        (_divided, {"reciprocal": True}),
        (_unscaled, {"reciprocal": False, "factor": 1.0}),
    )
    return tuple(
        Spelling(partial(_lhs, scale=scale, casts=casts), fixed)
        for scale, fixed in kinds
        for casts in (False, True)
    )


def _holes(sizes: Mapping[str, Any]) -> dict[str, Any]:
    leads = ((), (sizes["t"],), (1, 1, sizes["t"]))  # a mask of one, two or four axes
    lead = leads[min(len(sizes["lead"]), 2)]
    return {"factor": 0.125, "wide": DType.F32, "narrow": DType.F32, "lead": lead}


ATTENTION = Rule(
    name="attention",
    identity="softmax(scale · q kᵀ) v  =  attention(q, k, v), heads outside the tokens",
    source=_SOURCE,
    operands={"q": "narrow: b h t d", "kt": "narrow: b h d s", "v": "narrow: b h s e"},
    spellings=_spellings(),
    rhs=_attend,
    fidelity=Fidelity.REAL,
    holes=_holes,
    when=(_WIDE, _NUMBERS, _SCALED, INTERMEDIATE_IS_READ_ELSEWHERE),
)

MASKED_ATTENTION = Rule(
    name="masked-attention",
    identity="softmax(scale · q kᵀ + m) v  =  attention(q, k, v, m), heads outside the tokens",
    source=_SOURCE,
    operands={**ATTENTION.operands, "mask": "narrow: * s"},
    spellings=_spellings(),
    rhs=_masked_attend,
    fidelity=Fidelity.REAL,
    holes=_holes,
    when=(
        _WIDE,
        _NUMBERS,
        _SCALED,
        INTERMEDIATE_IS_READ_ELSEWHERE,
        Precondition(
            "mask-widens-scores", _mask_does_not_widen, "the mask has axes that the scores lack"
        ),
    ),
)
