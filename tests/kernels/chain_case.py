"""Run a graph as a vector chain and compare it with float64."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_chain import emit_vector_chain, plan_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView, local_bytes
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.tensor_type import TensorType
from tests.kernels.rounding_bound import bound_graph
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, launch


def check_chain(
    graph: Graph,
    rows: tuple[int, ...],
    *,
    views: Mapping[int, RowView] | None = None,
    target: Target | None = None,
    positive: bool = False,
) -> None:
    """Assert that the kernel of ``graph`` is within the bound for each number of rows.

    The graph's row axis is its capacity, a number. Without a target the plan is for two cores that
    hold few rows at a time, so that they work in several steps with a rest.
    """
    views = views or {}
    capacity = int(graph.type_of(graph.inputs[0]).shape[0])  # pyright: ignore[reportArgumentType]
    target = target or _few_rows(graph, views)
    plan = plan_vector_chain(graph, rows=DeviceSize(0, capacity), target=target, views=views)
    assert local_bytes(plan.buffers) <= target.unified_buffer
    kernel = emit_vector_chain(plan, "vector_chain")
    random = np.random.default_rng(0)
    tensors: dict[str, Array] = {}
    given: dict[Value, Array] = {}
    for i, value in enumerate(graph.inputs):
        kind = graph.type_of(value)
        tensors[f"x{i}"], given[value] = _operand(random, kind, views.get(i), positive=positive)
    for i, value in enumerate(graph.params):
        kind = graph.type_of(value)
        tensors[f"w{i}"], given[value] = _operand(random, kind, None, positive=positive)
    expected = bound_graph(graph, {value: each.astype(np.float64) for value, each in given.items()})
    for count in rows:
        out = launch(kernel, tensors, count)
        for i, (kind, exact) in enumerate(zip(graph.output_types, expected, strict=True)):
            found = out[f"y{i}"].reshape(exact.value.shape).astype(np.float64)
            stored = exact.rounded(kind.dtype.unit_roundoff)
            error = np.abs(found - stored.value)
            assert np.isnan(found[count:]).all()
            worst = np.max(error[:count] - stored.error[:count], initial=0.0)
            assert (error <= stored.error)[:count].all(), f"output {i} is off by {worst:g} more"


def _few_rows(graph: Graph, views: Mapping[int, RowView]) -> Target:
    one = plan_vector_chain(graph, rows=DeviceSize(0, 1), target=TARGET, views=views)
    size = min(4 * local_bytes(one.buffers), TARGET.unified_buffer)
    return replace(FEW_CORES, unified_buffer=size)


def _operand(
    random: np.random.Generator,
    kind: TensorType,
    view: RowView | None,
    *,
    positive: bool,
) -> tuple[Array, Array]:
    """Return a tensor and the part of it that the graph sees."""
    shape = tuple(map(int, kind.shape))  # pyright: ignore[reportArgumentType]
    length = int(np.prod(shape[1:]))
    if view is None:
        view = RowView(length)
    size = view.offset + (shape[0] if shape else 1) * view.stride if len(shape) > 1 else shape[0]
    values = random.standard_normal(size)
    if positive:
        values = np.abs(values) + 0.25
    tensor = values.astype(kind.dtype.numpy)
    if len(shape) <= 1:
        return tensor, tensor
    rows = tensor[view.offset :].reshape(shape[0], view.stride)[:, :length]
    return tensor[: view.offset + (shape[0] - 1) * view.stride + length], rows.reshape(shape)
