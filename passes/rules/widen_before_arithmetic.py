"""Compute in the wider format at once instead of rounding to the narrower one before."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ascendfx.ir.graph import Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Add, Cast, Linear, Multiply
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, y: Value, op: Op) -> Value:
    return b.add(Cast(h.format), b.add(op, x, y))


def _rhs(b: SideBuilder, h: Any, x: Value, y: Value, op: Op) -> Value:
    return b.add(op, b.add(Cast(h.format), x), b.add(Cast(h.format), y))


def _widens(site: Site) -> bool:
    narrow, wide = site.type_of("x").dtype, site.holes["format"]
    return narrow.is_float and wide.is_float and narrow.bytes < wide.bytes


def _rule(op: Op, operands: Mapping[str, str]) -> Rule:
    return Rule(
        name=f"widen-before-{op.mnemonic}",
        identity="widen(f(x, y))  =  f(widen(x), widen(y)), without the rounding in between",
        source="Higham, Accuracy and Stability, section 2.2: the wider result is the closer one",
        operands=operands,
        spellings=(Spelling(partial(_lhs, op=op)),),
        rhs=partial(_rhs, op=op),
        fidelity=Fidelity.REAL,
        holes=lambda _: {"format": DType.F64},
        when=(
            Precondition(
                "narrows",
                _widens,
                "the cast narrows: rounded operands that cancel leave nothing but their errors",
            ),
        ),
    )


RULES: tuple[Rule, ...] = (
    _rule(Add(), {"x": "* k", "y": "* j"}),
    _rule(Linear(), {"x": "* k", "y": "n k"}),
    _rule(Multiply(), {"x": "* k", "y": "* j"}),
)
