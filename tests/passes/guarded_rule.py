"""A rule with a precondition, and programs for it."""

import dataclasses
from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Add, Negate, Subtract
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Add(), x, b.add(Negate(), y))


def _rhs(b: GraphBuilder, h: Any, x: Value, y: Value) -> Value:
    return b.add(Subtract(), x, y)


def _is_real(site: Site) -> bool:
    return site.type_of("x").dtype.is_float


RULE = Rule(
    name="subtract",
    identity="x + (-y) = x - y",
    source="test",
    operands={"x": "* k", "y": "* k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.BITWISE,
)
GUARDED = dataclasses.replace(
    RULE, when=(Precondition("integers", _is_real, "integers wrap around"),)
)


def program(dtype: str = "f32", operation: str = "negate") -> Program:
    return parse_program(
        f"""graph @g {{
          %0 = input "x" : {dtype}[tokens]
          %1 = {operation} %0 : {dtype}[tokens]
          %2 = add %0, %1 : {dtype}[tokens]
          return %2
        }}"""
    )
