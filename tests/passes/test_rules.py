"""Every rule is proved twice, shown to fire, and refused when it is wrong."""

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Multiply, RmsNorm
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, Spelling
from ascendfx.passes.rules import RULES, rms_norm
from tests.strategies.program_tensors import random_tensors
from tests.strategies.rounding_bound import assert_equal_up_to_rounding
from tests.strategies.rule_sides import (
    concrete,
    letters_of,
    operand_types,
    operands_of,
    side,
    side_or_none,
    sizes_of,
    unequal_sizes,
)

_EXAMPLES = Path(__file__).parents[1] / "filecheck"
_SYMBOLS = 20
"""Most symbols in a symbolic proof; sizes start at two and shrink to one until they fit."""


every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
every_spelling = pytest.mark.parametrize(
    ("rule", "spelling"),
    [(rule, spelling) for rule in RULES for spelling in rule.spellings],
    ids=lambda each: each.name if isinstance(each, Rule) else None,
)


def example(name: str) -> Program:
    return parse_program((_EXAMPLES / f"{name}.ir").read_text(encoding="utf-8"), file=name)


def apply(rule: Rule, program: Program) -> Program:
    return ApplyRules((rule,)).run(program).program


def small_sizes(rule: Rule) -> dict[str, Any]:
    sizes: dict[str, Any] = {**dict.fromkeys(letters_of(rule), 2), "lead": ()}
    for letter in letters_of(rule):
        types = operand_types(rule, concrete(rule, rule.spellings[0], sizes)).values()
        if sum(int(np.prod(np.asarray(kind.shape, int))) for kind in types) <= _SYMBOLS:
            break
        sizes[letter] = rule.minimum.get(letter, 1)
    return sizes


def symbolic_difference(rule: Rule, spelling: Spelling) -> list[bool]:
    """Say for each element whether lhs - rhs survives simplification; operands are symbols."""
    holes = concrete(rule, spelling, small_sizes(rule))
    operands: dict[str, Array] = {
        name: np.array(sympy.symarray(name, kind.shape, positive=True), dtype=object)
        if kind.dtype.is_float
        else np.arange(kind.shape[0]) % holes[rule.below[name]]
        for name, kind in operand_types(rule, holes).items()
    }
    sides = (interpret(side(rule, each, holes), operands) for each in (spelling.lhs, rule.rhs))
    return [
        not is_zero(element)
        for lhs, rhs in zip(*sides, strict=True)
        for element in np.ravel(lhs - rhs)
    ]


def is_zero(difference: Any) -> bool:
    exact = sympy.nsimplify(difference, rational=True)
    return sympy.expand(exact) == 0 or sympy.simplify(exact) == 0


@pytest.mark.parametrize("rule", [r for r in RULES if r.symbolic], ids=lambda r: r.name)
def test_sides_are_equal_as_expressions(rule: Rule) -> None:
    for spelling in rule.spellings:
        assert not any(symbolic_difference(rule, spelling))


@every_spelling
@settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_sides_are_equal_as_numbers(rule: Rule, spelling: Spelling, data: st.DataObject) -> None:
    holes = concrete(rule, spelling, data.draw(sizes_of(rule)))
    lhs = side_or_none(rule, spelling.lhs, holes)
    assume(lhs is not None)
    rhs = side(rule, rule.rhs, holes)
    operands = data.draw(operands_of(rule, holes))
    assert_equal_up_to_rounding(lhs, rhs, operands)


@every_spelling
def test_sides_have_equal_types_for_unequal_sizes(rule: Rule, spelling: Spelling) -> None:
    for lead in ((), (7,), (7, 8)):
        holes = concrete(rule, spelling, unequal_sizes(rule, spelling, lead))
        lhs, rhs = side(rule, spelling.lhs, holes), side(rule, rule.rhs, holes)
        assert lhs.output_types == rhs.output_types


@every_spelling
def test_fires_on_every_spelling(rule: Rule, spelling: Spelling) -> None:
    unguarded = dataclasses.replace(rule, when=(), derive=lambda _: {"experts": 5})
    holes = concrete(rule, spelling, unequal_sizes(rule, spelling, (7,)))
    lhs = side(rule, spelling.lhs, holes)
    after = ApplyRules((unguarded,)).run_graph(lhs).graph
    assert after == side(rule, rule.rhs, holes)


@every_rule
def test_fires_on_its_example_and_keeps_the_result(rule: Rule) -> None:
    before = example(rule.name)
    after = apply(rule, before)
    assert after != before
    assert_equal_up_to_rounding(before, after, random_tensors(before, seed=0, ids=2))
    assert all(node.location.line > 0 for node in after.main.nodes)


@pytest.mark.parametrize(
    ("rule", "condition"),
    [(rule, condition) for rule in RULES for condition in rule.when],
    ids=lambda each: each.name if isinstance(each, Rule) else each.blocks,
)
def test_each_precondition_alone_blocks_its_example(rule: Rule, condition: Precondition) -> None:
    program = example(f"{rule.name}.{condition.blocks}")
    result = ApplyRules((rule,)).run(program)
    assert result.program is program
    assert any(condition.otherwise in remark for remark in result.remarks)
    others = tuple(each for each in rule.when if each is not condition)
    with suppress(GraphError, AttributeError):  # the rewrite would not even be well typed
        assert apply(dataclasses.replace(rule, when=others), program) != program


def test_the_proofs_refuse_a_wrong_rule() -> None:
    def gain_is_squared(b: GraphBuilder, h: Any, x: Value, g: Value) -> Value:
        return b.add(RmsNorm(h.eps), x, b.add(Multiply(), g, g))

    wrong = dataclasses.replace(rms_norm.RULE, rhs=gain_is_squared)
    spelling = wrong.spellings[0]
    assert any(symbolic_difference(wrong, spelling))
    holes = concrete(wrong, spelling, {"k": 3, "lead": (2,)})
    lhs, rhs = side(wrong, spelling.lhs, holes), side(wrong, wrong.rhs, holes)
    operands = {"x": np.ones((2, 3)), "g": np.full(3, 2.0)}
    with pytest.raises(AssertionError, match="exceeds"):
        assert_equal_up_to_rounding(lhs, rhs, operands)


def test_bitwise_rules_give_the_same_bits() -> None:
    for rule in RULES:
        if rule.fidelity is Fidelity.BITWISE:
            before = example(rule.name)
            tensors = random_tensors(before, seed=1, ids=2)
            results = zip(
                interpret(before, tensors), interpret(apply(rule, before), tensors), strict=True
            )
            assert all(np.array_equal(a, c) for a, c in results)
