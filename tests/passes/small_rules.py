"""Rules of a line, and what their check says of them."""

from typing import Any

import pytest

from ascendfx import rules
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import (
    Add,
)
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.rule import Side

Operands = dict[str, str]


def rule(name: str, lhs: Side, rhs: Side, operands: Operands, **options: Any) -> rules.Rule:
    return rules.Rule(
        name=name,
        identity="wrong",
        source="test",
        operands=operands,
        spellings=(rules.Spelling(lhs),),
        rhs=rhs,
        **{"fidelity": rules.Fidelity.REAL, **options},
    )


def program(*lines: str) -> Program:
    body = [f"%{i} = {line}" for i, line in enumerate(lines)]
    return parse_program("\n".join(["graph @g {", *body, f"return %{len(lines) - 1}", "}"]))


def refused(wrong: rules.Rule, example: Program) -> str:
    with pytest.raises(GraphError) as caught:
        rules.register(wrong, examples={"": example})
    assert caught.value.code == "rule-not-proved"
    assert wrong not in rules.registered()
    return str(caught.value)


def add(b: Any, x: Value, y: Value) -> Value:
    return b.add(Add(), x, y)
