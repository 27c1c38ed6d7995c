"""All forms of one class are one value; saturation is bounded, and says when it was cut short."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import (
    Add,
    Constant,
    Input,
    Linear,
    Multiply,
    Negate,
    Param,
    ReduceMean,
    Rsqrt,
    Slice,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.rounding_bound import rounding_bound
from ascendfx.passes.rule import Rule, Spelling
from ascendfx.passes.rules import RULES, SEARCHED
from ascendfx.passes.search.saturate import DEFAULT_LIMITS, SearchLimits, saturate
from tests.search.random_layers import layers

SMALL = SearchLimits(nodes=250, repeats=2)


@given(graph=layers())
@settings(max_examples=30)
def test_every_member_of_a_class_is_the_same_value(graph: Graph) -> None:
    egraph = saturate(graph, RULES, SMALL).egraph
    snapshot = egraph.snapshot()
    members = [Value(i) for i, node in enumerate(snapshot.nodes) if node.types[0].dtype.is_float]
    everything = Graph(snapshot.name, snapshot.nodes, tuple(members))
    tensors = random_tensors(Program((graph,)), seed=1)
    results = dict(zip(members, interpret(everything, tensors), strict=True))
    bounds = dict(zip(members, rounding_bound(everything, tensors), strict=True))
    for member in members:
        first = egraph.find(member)
        assert snapshot.type_of(member) == snapshot.type_of(first)
        # Each is within its own bound of the one real number both stand for.
        gap = np.abs(results[member] - results[first])
        assert np.all(gap <= bounds[member] + bounds[first])


def test_every_rule_of_the_library_can_be_searched() -> None:
    """The pattern of rms_norm has ``x * x``: turned, it is the same query again."""
    b = GraphBuilder("layer")
    x = b.add(Input("x", TensorType(DType.F32, (named_size("rows"), 4))))
    mean = b.add(ReduceMean((1,), keep=True), b.add(Multiply(), x, x))
    epsilon = b.add(Constant(0.5, DType.F32))
    scaled = b.add(Multiply(), x, b.add(Rsqrt(), b.add(Add(), epsilon, mean)))
    gain = b.add(Param("g", TensorType(DType.F32, (4,))))
    result = saturate(b.build(b.add(Multiply(), gain, scaled)), RULES, DEFAULT_LIMITS)
    assert result.applied["rms-norm"] >= 1
    assert not result.stopped


def two_products() -> Graph:
    b = GraphBuilder("layer")
    x = b.add(Input("x", TensorType(DType.F32, (named_size("rows"), 4))))
    v, w = (b.add(Param(name, TensorType(DType.F32, (4, 4)))) for name in ("v", "w"))
    return b.build(b.add(Add(), b.add(Linear(), x, v), b.add(Linear(), x, w)))


@pytest.mark.parametrize(
    ("limits", "stopped"),
    [
        (SearchLimits(iterations=1), "1 iterations"),
        (SearchLimits(nodes=6), "6 nodes"),
        (SearchLimits(seconds=0.0), "0 seconds, so another run may differ"),
    ],
    ids=["iterations", "nodes", "seconds"],
)
def test_a_limit_that_stops_the_search_is_told(limits: SearchLimits, stopped: str) -> None:
    assert saturate(two_products(), SEARCHED, limits).stopped == stopped


@pytest.mark.parametrize("wrong", [{"nodes": -5}, {"iterations": -1}, {"seconds": float("nan")}])
def test_a_limit_is_a_number_of_at_least_zero(wrong: Any) -> None:
    with pytest.raises(GraphError, match="not a number of at least 0"):
        SearchLimits(**wrong)


def test_a_search_that_ends_by_itself_says_nothing() -> None:
    result = saturate(two_products(), SEARCHED, DEFAULT_LIMITS)
    assert result.stopped == ""
    assert result.applied["sum-of-linears-of-one-input"] >= 1


def test_rules_that_undo_each_other_end_by_themselves() -> None:
    products = tuple(rule for rule in SEARCHED if rule.name in ("compose-linears", "factor-linear"))
    b = GraphBuilder("layer")
    x = b.add(Input("x", TensorType(DType.F32, (named_size("rows"), 4))))
    for i in range(3):
        x = b.add(Linear(), x, b.add(Param(f"w{i}", TensorType(DType.F32, (4, 4)))))
    result = saturate(b.build(x), products, DEFAULT_LIMITS)
    assert not result.stopped
    assert result.applied["compose-linears"] > 1


def test_a_rule_that_changes_a_type_is_refused() -> None:
    wrong = Rule(
        name="drop-half",
        identity="wrong",
        source="none",
        operands={"x": "* n"},
        spellings=(Spelling(lambda b, h, x: b.add(Negate(), x)),),
        rhs=lambda b, h, x: b.add(Slice(1, 0, 2), x),
        fidelity=Fidelity.REAL,
    )
    b = GraphBuilder("layer")
    x = b.add(Input("x", TensorType(DType.F32, (named_size("rows"), 4))))
    with pytest.raises(GraphError) as caught:
        saturate(b.build(b.add(Negate(), x)), (wrong,), DEFAULT_LIMITS)
    assert str(caught.value) == (
        "error[rule-changes-type]: rule `drop-half` equates f32[rows, 4] with f32[rows, 2]\n"
        "\n"
        "hint: both sides of a rule must have the same type; `ascendfx.rules.check` says so"
    )


def test_egglog_is_asked_for_by_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "egglog", None)
    with pytest.raises(GraphError) as caught:
        saturate(two_products(), SEARCHED, DEFAULT_LIMITS)
    assert str(caught.value) == (
        "error[missing-egglog]: the search for the cheapest form needs egglog, which is not "
        "installed\n"
        "\n"
        "hint: pip install 'ascendfx[compile]', or compile with strategy=\"ordered\""
    )


def test_more_repeats_only_add() -> None:
    once = saturate(two_products(), SEARCHED, DEFAULT_LIMITS).egraph.size
    twice = saturate(two_products(), SEARCHED, replace(DEFAULT_LIMITS, repeats=2)).egraph.size
    assert twice >= once
