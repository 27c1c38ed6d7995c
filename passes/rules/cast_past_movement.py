"""Convert before moving if that makes fewer bytes, else afterwards."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import CacheRead, Cast, Concat, Reshape, Slice, Transpose
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Proof, Rule, SideBuilder, Site, Spelling

_Move = Callable[..., Value]
"""``move(builder, holes, *moved, *others)``: elements in another order."""


def _cast_last(b: SideBuilder, h: Any, *operands: Value, move: _Move, moved: int) -> Value:
    return b.add(Cast(h.format), move(b, h, *operands))


def _cast_first(b: SideBuilder, h: Any, *operands: Value, move: _Move, moved: int) -> Value:
    converted = (b.add(Cast(h.format), each) for each in operands[:moved])
    return move(b, h, *converted, *operands[moved:])


def _reshape(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Reshape(h.shape), x)


def _transpose(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Transpose(h.permutation), x)


def _slice(b: SideBuilder, h: Any, x: Value) -> Value:
    return b.add(Slice(h.axis, h.start, h.stop, h.step), x)


def _concat(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Concat(h.axis), x, y)


def _read(b: SideBuilder, h: Any, x: Value, table: Value) -> Value:
    return b.add(CacheRead(h.context), x, table)


def _holes(sizes: Mapping[str, Any]) -> Mapping[str, Any]:
    lead, k, n = len(sizes["lead"]), sizes["k"], sizes["n"]
    return {
        "format": DType.BF16,
        "shape": (*sizes["lead"], k * n),
        "permutation": (*range(lead), lead + 1, lead),
        "axis": lead,
        "start": k // 2,
        "stop": k,
        "step": 1,
        "context": n * k,
    }


def _does_not_widen(site: Site) -> bool:
    return site.holes["format"].bytes <= site.type_of("x").dtype.bytes


def _widens(site: Site) -> bool:
    return site.holes["format"].bytes > site.type_of("x").dtype.bytes


_NARROWING = Precondition("widens", _does_not_widen, "the cast widens: it is better done last")
_WIDENING = Precondition("narrows", _widens, "the cast does not widen: it is better done first")


def _rules(name: str, move: _Move, operands: Mapping[str, str], moved: int) -> tuple[Rule, Rule]:
    first, last = (partial(each, move=move, moved=moved) for each in (_cast_first, _cast_last))

    def rule(name: str, lhs: Any, rhs: Any, condition: Precondition) -> Rule:
        return Rule(
            name=name,
            identity="cast(move(x))  =  move(cast(x))",
            source="a conversion looks at one element at a time",
            operands=operands,
            spellings=(Spelling(lhs),),
            rhs=rhs,
            fidelity=Fidelity.BITWISE,
            holes=_holes,
            below={"table": "b"} if "table" in operands else {},
            proof=Proof.EXHAUSTIVE if "table" in operands else Proof.SYMBOLIC,
            when=(condition,),
        )

    return (
        rule(f"narrow-before-{name}", last, first, _NARROWING),
        rule(f"widen-after-{name}", first, last, _WIDENING),
    )


RULES: tuple[Rule, ...] = (
    *_rules("reshape", _reshape, {"x": "* k n"}, 1),
    *_rules("transpose", _transpose, {"x": "* k n"}, 1),
    *_rules("slice", _slice, {"x": "* k n"}, 1),
    *_rules("concat", _concat, {"x": "* k", "y": "* n"}, 2),
    *_rules("cache-read", _read, {"x": "b k d", "table": "i32: q n"}, 1),
)
