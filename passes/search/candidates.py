"""What extraction chooses from: for each class the nodes that make it, with what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import Constant, Input, Iota, Param
from ascendfx.passes.search.op_cost import Cost, OpCost, OpSite, Refusal
from ascendfx.passes.search.saturate import Saturation


@dataclass(frozen=True, slots=True)
class Candidates:
    """All forms, as choices.

    Attributes:
        nodes: Every node; operands are classes.
        makers: For each class the values that are it, the oldest first.
        femtoseconds: What each node that can be chosen adds to a step; nothing where weights alone
            decide its result.
        outputs: Classes that are wanted.
        refused: Why some operations have no kernel, each reason once.
    """

    nodes: Sequence[Node]
    makers: Mapping[Value, Sequence[Value]]
    femtoseconds: Mapping[int, int]
    outputs: tuple[Value, ...]
    refused: tuple[str, ...]


def candidates_of(saturation: Saturation, costs: OpCost) -> Candidates:
    """Return the choices that have a kernel, equal nodes once."""
    egraph = saturation.egraph
    graph = egraph.snapshot()
    constant = _constant_classes(saturation, graph)
    makers: dict[Value, list[Value]] = {}
    femtoseconds: dict[int, int] = {}
    refused: dict[str, None] = {}
    known: dict[object, Cost | Refusal] = {}
    seen: set[object] = set()
    for position, node in enumerate(graph.nodes):
        key = (node.op, node.operands)
        if key in seen:
            continue
        seen.add(key)
        results = [Value(position, i) for i in range(len(node.types))]
        if isinstance(node.op, Input) or egraph.find(results[0]) in constant:
            femtoseconds[position] = 0
        else:
            cost = _ask(graph, node, costs, known)
            if isinstance(cost, Refusal):
                refused[cost.reason] = None
                continue
            femtoseconds[position] = cost.femtoseconds
        for value in results:
            makers.setdefault(egraph.find(value), []).append(value)
    return Candidates(graph.nodes, makers, femtoseconds, saturation.outputs, tuple(refused))


def _ask(
    graph: Graph, node: Node, costs: OpCost, known: dict[object, Cost | Refusal]
) -> Cost | Refusal:
    classes = {value: i for i, value in enumerate(dict.fromkeys(node.operands))}
    site = OpSite(
        op=node.op,
        operands=tuple(map(graph.type_of, node.operands)),
        results=node.types,
        classes=tuple(classes[value] for value in node.operands),
    )
    key = (site.op, site.operands, site.classes)
    if key not in known:
        known[key] = costs.of_op(site)
    return known[key]


def _constant_classes(saturation: Saturation, graph: Graph) -> frozenset[Value]:
    """Return the classes that weights alone decide: `fold-weights` computes them once."""
    egraph = saturation.egraph
    found: set[Value] = set()
    size = -1
    while len(found) != size:
        size = len(found)
        for position, node in enumerate(graph.nodes):
            sized = any(kind.names for kind in node.types)
            if sized or len(node.types) != 1 or isinstance(node.op, Input):
                continue
            leaf = isinstance(node.op, Param | Constant | Iota)
            if leaf or (node.operands and all(value in found for value in node.operands)):
                found.add(egraph.find(Value(position)))
    return frozenset(found)
