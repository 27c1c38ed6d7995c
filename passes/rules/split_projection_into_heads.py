"""Write the projection that makes the keys of all heads as one projection per head."""

from typing import Any

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import HeadLinear, Linear, RaggedAttention, Reshape, Slice
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Precondition, Rule, SideBuilder, Site, Spelling


def _lhs(b: SideBuilder, h: Any, x: Value, w: Value) -> Value:
    return b.add(Reshape((h.t, h.h, h.n)), b.add(Linear(), x, w))


def _rhs(b: GraphBuilder, h: Any, x: Value, w: Value) -> Value:
    shared = b.add(Reshape((h.t, 1, h.k)), x)
    return b.add(HeadLinear(), shared, b.add(Reshape((h.h, h.n, h.k)), w))


def _is_key_side(site: Site) -> bool:
    return all(reads_as_key(site.graph, value) for value in site.outputs)


def reads_as_key(graph: Graph, value: Value) -> bool:
    """Say whether ``value`` is read, through slices and reshapes, as keys or values only."""
    readers = graph.uses.get(value, ())
    if not readers or value in graph.outputs:
        return False
    for position in readers:
        node = graph.nodes[position]
        if isinstance(node.op, RaggedAttention):
            if value in node.op.roles(node.operands).queries:
                return False
        elif not isinstance(node.op, Slice | Reshape) or not reads_as_key(graph, Value(position)):
            return False
    return True


RULE = Rule(
    name="split-projection-into-heads",
    identity="split_heads(x · Wᵀ)  =  head_linear(x, split_heads(W))",
    source="block structure of the matrix product",
    operands={"x": "t k", "w": "h*n k"},
    spellings=(Spelling(_lhs),),
    rhs=_rhs,
    fidelity=Fidelity.REAL,
    when=(
        Precondition(
            "not-a-key-side",
            _is_key_side,
            "the projection is not the key side of an attention, one large product is better",
        ),
    ),
)
