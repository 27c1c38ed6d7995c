"""A form that is refused as a whole gives way to the next best, not to the fixed order."""

from dataclasses import dataclass, field

import pytest

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import Input, Linear, Param, Reshape, Sigmoid, Slice, Swiglu
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.graph_pass import PassResult
from ascendfx.passes.rules import SEARCHED
from ascendfx.passes.search.op_cost import Cost, OpSite, Refusal
from ascendfx.passes.search.search_forms import SearchForms
from tests.search.search_case import attends_latent, costs_of, load, products, search
from tests.search.size_cost import SizeCost

_TINY = {"f32": "tiny_moe_layer_f32", "bf16": "tiny_moe_layer_bf16"}


@dataclass(frozen=True)
class DenseSigmoid:
    """Costs of a chip whose sigmoid takes no strides; what it is asked is written down."""

    told: bool = True
    asked: list[Graph] = field(default_factory=list, compare=False)

    def of_op(self, site: OpSite) -> Cost:
        return SizeCost().of_op(site)

    def of_graph(self, graph: Graph) -> Cost | Refusal:
        self.asked.append(graph)
        for position, node in enumerate(graph.nodes):
            if isinstance(node.op, Sigmoid) and _strided(graph, node.operands[0]):
                nodes = (position, node.operands[0].node) if self.told else ()
                return Refusal("sigmoid: operand is not contiguous", nodes)
        return SizeCost().of_graph(graph)


def _strided(graph: Graph, value: Value) -> bool:
    while isinstance(graph.op_of(value), Reshape):
        (value,) = graph.nodes[value.node].operands
    return isinstance(graph.op_of(value), Slice)


def router(*, heads: bool = False) -> Graph:
    """Return a product that needs dense rows beside two that do not."""
    b = GraphBuilder("layer")
    rows = named_size("rows")
    x = b.add(Input("x", TensorType(DType.F32, (rows, 64))))
    scored, gate, up = (
        b.add(Linear(), x, b.add(Param(name, TensorType(DType.F32, (size, 64)))))
        for name, size in (("router", 4), ("gate", 8), ("up", 8))
    )
    if heads:
        scored = b.add(Reshape((rows, 2, 2)), scored)
    return b.build(b.add(Sigmoid(), scored), b.add(Swiglu(), gate, up))


def searched(graph: Graph, costs: DenseSigmoid | SizeCost) -> PassResult:
    return SearchForms(SEARCHED, costs).run(Program((graph,)))


@pytest.mark.parametrize("heads", [False, True], ids=["slice", "reshape-of-slice"])
def test_the_next_best_form_is_taken(*, heads: bool) -> None:
    graph = router(heads=heads)
    assert products(searched(graph, SizeCost()).program.main) == 1  # by costs alone
    costs = DenseSigmoid()
    result = searched(graph, costs)
    assert products(result.program.main) == 2  # the router for itself; gate and up are one
    chosen, given = (costs.of_graph(each) for each in (result.program.main, graph))
    assert isinstance(chosen, Cost)
    assert isinstance(given, Cost)
    assert chosen.seconds < given.seconds


def test_what_was_ruled_out_is_said_and_nothing_else() -> None:
    remarks = [each.text for each in searched(router(), DenseSigmoid()).remarks]
    assert 1 <= len(remarks) <= 2  # one in each round
    for each in remarks:
        assert each.startswith("@layer: f32[rows, 4] cannot be a slice of f32[rows, ")
        assert each.endswith(": sigmoid: operand is not contiguous")


def test_without_a_place_the_given_form_is_taken_and_the_last_remark_is_true() -> None:
    graph = router()
    result = searched(graph, DenseSigmoid(told=False))
    assert result.program.main == graph
    assert [each.text for each in result.remarks] == [
        "@layer: the search form has no kernel: sigmoid: operand is not contiguous",
        "@layer: the ordered form is chosen, that of search has no kernel",
    ]


@dataclass(frozen=True)
class _NeverContent(DenseSigmoid):
    """Refuses whatever is asked, and points at everything."""

    def of_graph(self, graph: Graph) -> Cost | Refusal:
        self.asked.append(graph)
        return Refusal("never content", tuple(range(len(graph.nodes))))


def test_the_search_ends_where_every_form_is_refused() -> None:
    costs = _NeverContent()
    result = searched(router(), costs)
    assert result.program.main == router()
    assert len(costs.asked) <= 2 * 2 * 17 + 2  # rounds; simplified or not; tries; other forms
    assert result.remarks[-1].text == "@layer: the given form has no kernel: never content"


def test_the_result_is_the_same_every_time() -> None:
    one, other = (searched(router(heads=True), DenseSigmoid()) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("rows", "requests"), [(16, 16), (128, 1)], ids=["decode", "prefill"])
def test_a_layer_of_experts_gains_by_merged_projections(
    dtype: str, rows: int, requests: int
) -> None:
    given = load(_TINY[dtype])
    result = search(given, costs_of(rows, requests, 1024))
    found = result.program.main
    # q_a and kv_a are one product, gate and up of the shared expert as well; absorbed, no kv_b.
    assert products(found) == products(given) - 2 - attends_latent(found)
    figures = result.statistics
    assert figures["layer_1, chosen: nanoseconds"] == figures["layer_1, search: nanoseconds"]
    ruled_out = [each.text for each in result.remarks if "cannot be a slice" in each.text]
    # The router of float32 reads what the shared experts read; that of bfloat16, a cast of it.
    assert bool(ruled_out) == (dtype == "f32")
    assert [each.text for each in result.remarks] == ruled_out
