"""Where to cache: a minimum cut between the tokens and the key side of an attention.

A decode step needs the key-side tensors of all earlier tokens, so something between the token
inputs and those tensors must be stored per token. Storing a value costs its bytes per token;
values that do not depend on tokens cost nothing, they lie on no path. The cheapest set that
separates the tokens from the key side is a minimum cut of the dataflow graph with capacities on
its values (each value is an edge from its input side to its output side); of several cheapest
cuts the one nearest to the consumer is taken, which leaves the least to recompute. By the theorem
of Ford and Fulkerson (Canadian J. Math. 8, 1956) it equals a maximum flow.

Bytes are not the only cost: what lies below the cut is computed for all earlier tokens in every
step, what lies above it once, when its token enters. Two rules keep that work out of the step.

* Below the cut there is movement and projection by weights only, because these alone vanish from
  the step: a projection of all cached tokens is absorbed into the query and the result. What is
  not linear (a norm) and what reads a per-token value that is no token value (the rotation by cos
  and sin of the position) stays above: it would be repeated, and keep the projection above it from
  being absorbed. Without this rule the cheapest cut of a model with as many key heads as query
  heads is the hidden state, half as large as keys and values; and so it is for latent attention
  with a latent wider than the hidden state.
* `excluded` values are not stored. The caller names the projections of one vector that all heads
  can attend to (`projected_from_one`), so that the vector is stored. This costs bytes only if the
  keys and values of all heads together are smaller than what they are expanded from; then nothing
  is compressed, and every head would have to read rows of its own.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import networkx as nx

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import Cast, Concat, Expand, Linear, Reshape, Slice, Transpose
from ascendfx.ir.size import Dim, names_in, product
from ascendfx.passes.token_dependence import dependent_values

_ABSORBED: tuple[type[Op], ...] = (Cast, Concat, Expand, Linear, Reshape, Slice, Transpose)


@dataclass(frozen=True, slots=True)
class CacheCut:
    """What to store for one attention.

    Attributes:
        values: The stored values, in the order of their nodes; each has the token axis first.
        elements: Stored elements per token, all values together.
        consumer_nodes: Positions of the nodes between the stored values and the key side; they
            are recomputed from the cache.
    """

    values: tuple[Value, ...]
    elements: int
    consumer_nodes: frozenset[int]


def find_cache_cut(
    graph: Graph,
    sinks: Collection[Value],
    *,
    sources: Collection[Value],
    token_axis: Dim,
    excluded: Collection[Value] = (),
) -> CacheCut:
    """Return the cheapest values to store so that ``sinks`` can be recomputed.

    Args:
        graph: The graph of one layer.
        sinks: Key-side operands of one attention.
        sources: Token-dependent inputs and the results of earlier attentions.
        token_axis: The size of the token axis. A value can be stored if its first axis has this
            size and no other axis depends on it.
        excluded: Values that are not stored even so.

    Raises:
        GraphError: No finite cut exists: every path holds a value that mixes tokens.
    """
    needed = dependent_values(graph, sources) & _ancestors(graph, sinks, stop=sources)
    network = nx.DiGraph()
    for value in needed:
        cost = None if value in excluded else _bytes_per_token(graph, value, token_axis)
        limit = {} if cost is None else {"capacity": cost}
        network.add_edge(("in", value), ("out", value), **limit)
        if value in sources:
            network.add_edge("source", ("in", value))
            continue
        operands = set(graph.nodes[value.node].operands)
        for operand in operands & needed:
            network.add_edge(("out", operand), ("in", value))
        reads_positions = any(token_axis in graph.type_of(v).shape for v in operands - needed)
        if reads_positions or not isinstance(graph.op_of(value), _ABSORBED):
            network.add_edge("source", ("in", value))
    for sink in sinks:
        if sink in needed:
            network.add_edge(("out", sink), "sink")
    if "source" not in network or "sink" not in network:
        raise GraphError(
            code="no-cache",
            reason="the key side of this attention does not depend on the tokens",
            location=graph.nodes[min(sinks).node].location,
            hint="attention over constants has nothing to cache; such a model has no serving form",
        )
    try:
        below_cut = _sink_side(network)
    except nx.NetworkXUnbounded as error:
        raise GraphError(
            code="no-cache",
            reason="no per-token values separate the tokens from the keys of this attention",
            location=graph.nodes[min(sinks).node].location,
            hint="the key side mixes tokens before the attention; such a model has no cache",
        ) from error
    cut = tuple(sorted(v for v in needed if ("in", v) not in below_cut and ("out", v) in below_cut))
    below = _ancestors(graph, sinks, stop=cut) - frozenset(cut)
    consumers = frozenset(value.node for value in below)
    elements = sum(cast("int", product(graph.type_of(value).shape[1:])) for value in cut)
    return CacheCut(cut, elements, consumers)


def _sink_side(network: "nx.DiGraph[Any]") -> set[Any]:
    """Return the nodes behind the minimum cut that is nearest to the sink."""
    residual = cast("Any", nx.algorithms.flow.preflow_push(network, "source", "sink"))
    behind = {"sink"}
    pending: list[Any] = ["sink"]
    while pending:
        node = pending.pop()
        for before, _, arc in residual.in_edges(node, data=True):
            if before not in behind and arc["flow"] < arc["capacity"]:
                behind.add(before)
                pending.append(before)
    return behind


def _bytes_per_token(graph: Graph, value: Value, token_axis: Dim) -> int | None:
    kind = graph.type_of(value)
    if kind.rank < 1 or kind.shape[0] != token_axis:
        return None
    if any(names_in(size) for size in kind.shape[1:]):
        return None
    return cast("int", product(kind.shape[1:])) * kind.dtype.bytes


def _ancestors(
    graph: Graph, roots: Collection[Value], *, stop: Collection[Value]
) -> frozenset[Value]:
    found: set[Value] = set()
    pending = list(roots)
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        if value not in stop:
            pending += graph.nodes[value.node].operands
    return frozenset(found)
