"""Treat the cache instead of the tokens that are read from it, or the reverse."""

from collections.abc import Mapping
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import CacheRead, Concat, Linear, Slice
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, Side, SideBuilder, Spelling

_SOURCE = "reading moves whole tokens"


def _holes(sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"context": sizes["n"] * sizes["p"], "start": sizes["k"] // 2, "stop": sizes["k"]}


def _rule(
    name: str,
    identity: str,
    sides: tuple[Side, Side],
    operands: Mapping[str, str],
    *,
    fidelity: Fidelity,
) -> Rule:
    return Rule(
        name=name,
        identity=identity,
        source=_SOURCE,
        operands={"table": "i32: q n", **operands},
        spellings=(Spelling(sides[0]),),
        rhs=sides[1],
        fidelity=fidelity,
        holes=_holes,
        below={"table": "a"},
        proof=Proof.EXHAUSTIVE,
    )


def _projected_tokens(b: SideBuilder, h: Any, table: Value, cache: Value, w: Value) -> Value:
    return b.add(Linear(), b.add(CacheRead(h.context), cache, table), w)


def _projected_cache(b: SideBuilder, h: Any, table: Value, cache: Value, w: Value) -> Value:
    return b.add(CacheRead(h.context), b.add(Linear(), cache, w), table)


def _part_of_tokens(b: SideBuilder, h: Any, table: Value, cache: Value) -> Value:
    return b.add(Slice(2, h.start, h.stop), b.add(CacheRead(h.context), cache, table))


def _part_of_cache(b: SideBuilder, h: Any, table: Value, cache: Value) -> Value:
    return b.add(CacheRead(h.context), b.add(Slice(2, h.start, h.stop), cache), table)


def _joined_tokens(b: SideBuilder, h: Any, table: Value, first: Value, second: Value) -> Value:
    tokens = (b.add(CacheRead(h.context), each, table) for each in (first, second))
    return b.add(Concat(2), *tokens)


def _joined_cache(b: SideBuilder, h: Any, table: Value, first: Value, second: Value) -> Value:
    return b.add(CacheRead(h.context), b.add(Concat(2), first, second), table)


_WHOLE = {"cache": "a p k"}

RULES: tuple[Rule, ...] = (
    _rule(
        "linear-before-cache-read",
        "read(c) Wᵀ  =  read(c Wᵀ)",
        (_projected_tokens, _projected_cache),
        {**_WHOLE, "w": "m k"},
        fidelity=Fidelity.REAL,
    ),
    _rule(
        "linear-after-cache-read",
        "read(c Wᵀ)  =  read(c) Wᵀ",
        (_projected_cache, _projected_tokens),
        {**_WHOLE, "w": "m k"},
        fidelity=Fidelity.REAL,
    ),
    _rule(
        "slice-after-cache-read",
        "read(c[a:b])  =  read(c)[a:b]",
        (_part_of_cache, _part_of_tokens),
        _WHOLE,
        fidelity=Fidelity.BITWISE,
    ),
    _rule(
        "slice-before-cache-read",
        "read(c)[a:b]  =  read(c[a:b])",
        (_part_of_tokens, _part_of_cache),
        _WHOLE,
        fidelity=Fidelity.BITWISE,
    ),
    _rule(
        "concat-before-cache-read",
        "[read(c)|read(d)]  =  read([c|d])",
        (_joined_tokens, _joined_cache),
        {"first": "a p k", "second": "a p m"},
        fidelity=Fidelity.BITWISE,
    ),
)
