"""Extraction never costs more than where it starts, nor than one move away; often it is optimal."""

from itertools import product as every

import pytest
from hypothesis import given, settings

from ascendfx.ir.graph import Graph, GraphBuilder
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Input, Linear, Param
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.rounding_bound import rounding_bound
from ascendfx.passes.rules import ABSORBING, MERGING, SEARCHED
from ascendfx.passes.search.candidates import Candidates, candidates_of
from ascendfx.passes.search.extract import build_form, extract
from ascendfx.passes.search.saturate import DEFAULT_LIMITS, SearchLimits, saturate
from tests.search.random_layers import layers
from tests.search.size_cost import SizeCost

_MOST = 20_000


def cheapest(candidates: Candidates) -> int | None:
    """Return the least cost of all forms, None if there are too many to try."""
    open_classes = [each for each, made in candidates.makers.items() if len(made) > 1]
    count = 1
    for each in open_classes:
        count *= len(candidates.makers[each])
        if count > _MOST:
            return None
    single = {each: made[0] for each, made in candidates.makers.items()}
    best = None
    for picked in every(*(candidates.makers[each] for each in open_classes)):
        choice = {**single, **dict(zip(open_classes, picked, strict=True))}
        cost = _cost(candidates, choice)
        if cost is not None and (best is None or cost < best):
            best = cost
    return best


def _cost(candidates, choice) -> int | None:
    done: set[int] = set()

    def visit(each, above) -> bool:
        node = choice[each].node
        if each in above:
            return False
        if node in done:
            return True
        if not all(visit(v, {*above, each}) for v in candidates.nodes[node].operands):
            return False
        done.add(node)
        return True

    if not all(visit(each, set()) for each in candidates.outputs):
        return None
    return sum(candidates.femtoseconds[node] for node in done)


@given(graph=layers())
@settings(max_examples=100)
def test_small_graphs_of_all_forms_are_extracted_at_the_least_cost(graph: Graph) -> None:
    rules = (*ABSORBING, *MERGING)
    candidates = candidates_of(saturate(graph, rules, SearchLimits(nodes=60)), SizeCost())
    form = extract(candidates)
    best = cheapest(candidates)
    assert form is not None
    assert best is None or form.femtoseconds == best


@given(graph=layers())
@settings(max_examples=20)
def test_the_form_is_not_worse_than_where_it_started_and_means_the_same(graph: Graph) -> None:
    candidates = candidates_of(saturate(graph, SEARCHED, SearchLimits(nodes=200)), SizeCost())
    given = {each: made[0] for each, made in candidates.makers.items()}
    form = extract(candidates, (given,))
    assert form is not None
    found = build_form(candidates, form, graph).graph
    assert SizeCost().of_graph(found).seconds <= SizeCost().of_graph(graph).seconds
    assert found.input_types == graph.input_types
    assert found.output_types == graph.output_types
    tensors = random_tensors(Program((graph,)), seed=2)
    results = zip(
        *(interpret(each, tensors) for each in (graph, found)),
        *(rounding_bound(each, tensors) for each in (graph, found)),
        strict=True,
    )
    for before, after, error_before, error_after in results:
        assert (abs(before - after) <= error_before + error_after).all()


def test_products_with_one_input_are_merged_together_or_not_at_all() -> None:
    b = GraphBuilder("layer")
    x = b.add(Input("x", TensorType(DType.F32, (named_size("rows"), 64))))
    weights = [b.add(Param(name, TensorType(DType.F32, (2, 64)))) for name in ("v", "w")]
    graph = b.build(*(b.add(Linear(), x, weight) for weight in weights))
    candidates = candidates_of(saturate(graph, SEARCHED, DEFAULT_LIMITS), SizeCost())
    form = extract(candidates)
    assert form is not None
    found = build_form(candidates, form, graph).graph
    assert [node.op.mnemonic for node in found.nodes].count("linear") == 1
    one_input = SizeCost().of_graph(graph).bytes - 3 * 64
    assert SizeCost().of_graph(found).bytes == pytest.approx(one_input)
