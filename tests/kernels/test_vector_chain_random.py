"""Random chains: values in use keep their memory, and the kernel computes the graph."""

import pytest
from hypothesis import assume, given, settings

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_chain import emit_vector_chain, plan_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from tests.kernels.chain_case import check_chain
from tests.kernels.chain_strategy import chains
from tests.kernels.places_check import assert_values_keep_their_memory
from tests.kernels.vector_case import TARGET

_LAYOUT_REFUSALS = (
    "not a multiple of",
    "not at a multiple of",
    "single column",
    "not whole blocks",
)


def _is_supported(graph: Graph) -> bool:
    """Return whether the graph has a plan; a refusal must be for a layout, or the event ids."""
    try:
        plan_vector_chain(graph, rows=DeviceSize(0, 4), target=TARGET)
    except GraphError as error:
        layout = any(reason in error.reason for reason in _LAYOUT_REFUSALS)
        if error.code == "too-many-queues" or (error.code == "not-a-chain" and layout):
            return False
        raise
    return True


@settings(max_examples=300)
@given(graph=chains())
def test_values_in_use_keep_their_memory(graph: Graph) -> None:
    assume(_is_supported(graph))
    plan = plan_vector_chain(graph, rows=DeviceSize(0, 100), target=TARGET)
    assert_values_keep_their_memory(plan)
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer
    assert emit_vector_chain(plan, "chain") == emit_vector_chain(plan, "chain")


@settings(max_examples=10)
@given(graph=chains())
def test_random_chains_compute_their_graph(graph: Graph) -> None:
    assume(_is_supported(graph))
    rows = int(graph.type_of(graph.inputs[0]).shape[0])  # pyright: ignore[reportArgumentType]
    check_chain(graph, (0, 1, rows))


@pytest.mark.nightly
@settings(max_examples=400)
@given(graph=chains())
def test_many_random_chains_compute_their_graph(graph: Graph) -> None:
    assume(_is_supported(graph))
    rows = int(graph.type_of(graph.inputs[0]).shape[0])  # pyright: ignore[reportArgumentType]
    check_chain(graph, (rows,))
