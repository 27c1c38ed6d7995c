"""What the search is told has a kernel is what the lowering takes, for every attention we have."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from ascendfx.codegen.ascendc.lowering.assign_layouts import assign_layouts
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext, find_constants
from ascendfx.codegen.ascendc.lowering.lower_program import pairs_per_row
from ascendfx.codegen.ascendc.lowering.resolve_views import resolve_views
from ascendfx.codegen.ascendc.lowering.select_attention import select_attention
from ascendfx.codegen.ascendc.modelled_op_cost import ModelledOpCost
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.codegen.ascendc.work import StepSizes
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.ops import RaggedAttention
from ascendfx.ir.program import Program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.search.egraph import egraph_of
from ascendfx.passes.search.op_cost import Cost, OpSite
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.presets import TO_SERVING, passes_for
from tests.lowering.serving_programs import V3, Shape, serving_program
from tests.passes.captured_models import captured

TARGET = find_target("ascend910b")
STEPS = (StepSizes(1, 1, 256), StepSizes(16, 1, 256), StepSizes(4, 4, 256))
LIMITS = Limits(max_batch=4, max_context=256, prefill_chunk=16)
FORMS = ("serving", "decode ordered", "prefill ordered", "decode search", "prefill search")
MODELS = (
    "bundled_bf16",
    "llama_f32",
    "llama_mqa",
    "v2_bf16",
    "v2_f32",
    "v2_greedy",
    "v3_halfrope",
    "v3_yarn_bf16",
    "v3yarn_f32",
)
_SEARCHED = ("bundled_bf16",)
"""The others are searched in the nightly run."""


@cache
def serving(name: str) -> Program:
    return run_pipeline(captured(name), TO_SERVING)[0]


def form_of(name: str, form: str) -> Program:
    if form == "serving":
        return serving(name)
    plan, strategy = form.split()
    passes = passes_for(plan, strategy=strategy, target=TARGET, limits=LIMITS)
    return run_pipeline(serving(name), passes)[0]


def attentions(program: Program) -> Iterator[tuple[Graph, int, Node]]:
    for graph in program.graphs:
        for position, node in enumerate(graph.nodes):
            if isinstance(node.op, RaggedAttention):
                yield graph, position, node


def is_lowered(graph: Graph, position: int, costs: ModelledOpCost) -> str:
    """Return why the lowering refuses an attention, or nothing."""
    constants = find_constants(graph)
    context = GraphContext(
        graph=graph,
        views=resolve_views(graph, costs.capacity, constants=constants),
        constants=constants,
        layouts=assign_layouts(graph, constants),
        capacity=costs.capacity,
        pairs_per_row=pairs_per_row(Program((graph,))),
        target=costs.target,
    )
    try:
        select_attention(context, position)
    except GraphError as error:
        return f"{error.code}: {error.reason}"
    return ""


def is_offered(graph: Graph, node: Node, costs: ModelledOpCost) -> str:
    """Return why the cost model refuses an attention, or nothing; asked as the search asks."""
    egraph, moved = egraph_of(graph)
    classes = [egraph.find(moved[value]) for value in node.operands]
    numbers = {value: i for i, value in enumerate(dict.fromkeys(classes))}
    site = OpSite(
        op=node.op,
        operands=tuple(map(graph.type_of, node.operands)),
        results=node.types,
        classes=tuple(numbers[each] for each in classes),
    )
    found = costs.of_op(site)
    return "" if isinstance(found, Cost) else found.reason


def disagreements(program: Program) -> list[str]:
    found: list[str] = []
    for graph, position, node in attentions(program):
        for step in STEPS:
            costs = ModelledOpCost(TARGET, step, 8)
            lowered, offered = is_lowered(graph, position, costs), is_offered(graph, node, costs)
            if bool(lowered) != bool(offered):
                found.append(f"@{graph.name}, {step}: lowering {lowered!r}, model {offered!r}")
    return found


def some_forms() -> Iterator[object]:
    for name in MODELS:
        for form in FORMS:
            nightly = form.endswith("search") and name not in _SEARCHED
            yield pytest.param(name, form, marks=(pytest.mark.nightly,) if nightly else ())


@pytest.mark.parametrize(("name", "form"), [*some_forms()])
def test_search_and_lowering_take_the_same_attentions(name: str, form: str) -> None:
    program = form_of(name, form)
    assert [*attentions(program)]
    assert not disagreements(program)


@pytest.mark.parametrize("expanded", [True, False])
@pytest.mark.parametrize("shape", [Shape(), V3], ids=["small", "v3"])
def test_they_take_the_same_attentions_of_programs_of_any_size(
    shape: Shape,
    expanded: bool,  # noqa: FBT001
) -> None:
    layers = replace(shape, dense_layers=1, moe_layers=0, expanded=expanded)
    program = serving_program(layers)
    assert [*attentions(program)]
    assert not disagreements(program)
