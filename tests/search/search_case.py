"""Layers to search, and what a form is made of."""

from functools import cache
from pathlib import Path

from ascendfx.codegen.ascendc.modelled_op_cost import ModelledOpCost
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.codegen.ascendc.work import StepSizes
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import HeadLinear, Linear, RaggedAttention
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.graph_pass import PassResult
from ascendfx.passes.rules import SEARCHED
from ascendfx.passes.search.candidates import candidates_of
from ascendfx.passes.search.extract import build_form, extract
from ascendfx.passes.search.saturate import DEFAULT_LIMITS, Saturation, saturate
from ascendfx.passes.search.search_forms import SearchForms
from ascendfx.passes.simplify import Simplify

_PROGRAMS = Path(__file__).parent / "programs"

DENSE, MOE = "v3_dense_layer", "v3_moe_layer"
"""Layers of DeepSeek-V3 in serving form, before absorption: what derive-incremental-form left."""


def load(name: str) -> Graph:
    path = _PROGRAMS / f"{name}.ir"
    return parse_program(path.read_text(encoding="utf-8"), file=path.name).main


def costs_of(rows: int, requests: int, context: int) -> ModelledOpCost:
    blocks = requests * -(-context // 128)
    return ModelledOpCost(find_target("ascend910b"), StepSizes(rows, requests, context), blocks)


def search(graph: Graph, costs: ModelledOpCost) -> PassResult:
    """Search without any fixed order to fall back on."""
    return SearchForms(rules=SEARCHED, costs=costs).run(Program((graph,)))


@cache
def all_forms(name: str) -> tuple[Graph, Saturation]:
    """Return a layer and everything that the rules make of it, which no cost has a part in."""
    graph = load(name)
    return graph, saturate(graph, SEARCHED, DEFAULT_LIMITS)


def cheapest_form(name: str, costs: ModelledOpCost) -> Graph:
    """Return what the first round of a search finds."""
    graph, saturation = all_forms(name)
    candidates = candidates_of(saturation, costs)
    form = extract(candidates)
    assert form is not None
    return Simplify().run_graph(build_form(candidates, form, graph).graph).graph


def attends_latent(graph: Graph) -> bool:
    """Return whether no projection of the context is left and the keys are the values."""
    (attention,) = [node for node in graph.nodes if isinstance(node.op, RaggedAttention)]
    projected = [
        node
        for node in graph.nodes
        if isinstance(node.op, Linear | HeadLinear) and "context" in node.types[0].names
    ]
    return not projected and attention.operands[2] == attention.operands[4]


def products(graph: Graph) -> int:
    return sum(isinstance(node.op, Linear) for node in graph.nodes)
