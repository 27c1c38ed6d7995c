"""Rules with several results keep the graph acyclic, and several of them fit into one round."""

from typing import Any

import numpy as np

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Add, Cos, Input, Multiply, Sin
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Rule, SideBuilder, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, y: Value) -> tuple[Value, Value]:
    first = b.add(Sin(), x)
    return b.add(Multiply(), first, y), first


def _rhs(b: GraphBuilder, h: Any, x: Value, y: Value) -> tuple[Value, Value]:
    first = b.add(Cos(), x)  # wrong on purpose: shows what was rewritten
    return b.add(Multiply(), first, y), first


TWO_RESULTS = Rule(
    name="two-results",
    identity="for the order only",
    source="test",
    operands={"x": "* k", "y": "* k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
)


def _graph(*, second_depends_on_first: bool) -> Graph:
    b = GraphBuilder("g")
    x = b.add(Input("x", TensorType(DType.F32, (3,))))
    inner = b.add(Sin(), x)
    other = b.add(Add(), inner, x) if second_depends_on_first else b.add(Add(), x, x)
    return b.build(b.add(Multiply(), inner, other), inner)


def test_a_site_whose_operand_reads_its_own_result_is_left_alone() -> None:
    graph = _graph(second_depends_on_first=True)
    assert ApplyRules((TWO_RESULTS,)).run_graph(graph).graph is graph


def test_an_operand_that_stands_behind_the_first_result_is_moved_before_it() -> None:
    after = ApplyRules((TWO_RESULTS,)).run_graph(_graph(second_depends_on_first=False)).graph
    assert [node.op.mnemonic for node in after.nodes] == ["input", "add", "cos", "multiply"]
    product, first = interpret(after, {"x": np.array([0.0, 1.0, 2.0])})
    np.testing.assert_array_equal(product, first * [0.0, 2.0, 4.0])
