"""Apply local rules everywhere they fit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.match import Miss, match_at
from ascendfx.passes.pattern import Pattern, concrete_holes, patterns_of
from ascendfx.passes.remark import Remark
from ascendfx.passes.rule import Rule, Site, as_tuple


@dataclass(frozen=True, slots=True)
class ApplyRules(GraphPass):
    """One sweep over the graph per round, until nothing changes.

    Rules that match their own results are tried in the first round only. Places where more than
    half of a pattern fits, but not all of it, become remarks.

    Attributes:
        rules: Tried in order; the first that fits a node wins.
        max_rounds: Rounds after which the rules are considered cyclic.
    """

    name: ClassVar[str] = "apply-rules"

    rules: tuple[Rule, ...]
    max_rounds: int = 100

    @property
    def fidelity(self) -> Fidelity:  # pyright: ignore[reportIncompatibleVariableOverride]  # of its rules
        """How equal the results are: as equal as the worst of the rules leaves them."""
        order = tuple(Fidelity)
        return max((rule.fidelity for rule in self.rules), key=order.index, default=order[0])

    def run_graph(self, graph: Graph) -> GraphResult:
        """Rewrite to a fixed point.

        Raises:
            GraphError: ``max_rounds`` were not enough; the rules undo each other, or one of them
                matches its own result without saying so.
        """
        patterns = [pattern for rule in self.rules for pattern in patterns_of(rule)]
        applied: Counter[str] = Counter()
        for _ in range(self.max_rounds):
            sites, remarks = _find(graph, patterns)
            if not sites:
                return GraphResult(graph, dict(applied), remarks)
            graph = DropUnused().run_graph(replace_sites(graph, sites)).graph
            applied.update(rule.name for rule, _ in sites)
            patterns = [each for each in patterns if not each.rule.cyclic]
        raise GraphError(
            "rules-never-end",
            f"after {self.max_rounds} rounds a rule still applies: "
            + ", ".join(f"`{name}` {count} times" for name, count in applied.items()),
            hint="a rule that matches its own result is declared cyclic=True, and has one round",
        )


_Site = tuple[Rule, Site]


def right_side(
    builder: GraphBuilder, rule: Rule, site: Site, operands: Sequence[Value]
) -> tuple[Value, ...]:
    """Append the right side of a rule for a site, anywhere; its nodes come from where the root is.

    Args:
        builder: Where the nodes go.
        rule: The rule.
        site: What `match_at` found, in its own graph.
        operands: The values of the builder that stand for the operands of the rule, in their order.

    Raises:
        GraphError: The right side is not well typed there.
    """
    with builder.at(site.graph.nodes[site.outputs[0].node].location):
        return as_tuple(rule.rhs(builder, concrete_holes(**site.holes), *operands))


def _find(graph: Graph, patterns: Sequence[Pattern]) -> tuple[list[_Site], tuple[Remark, ...]]:
    sites: list[_Site] = []
    remarks: list[Remark] = []
    covered: set[int] = set()
    taken: set[Value] = set()
    for position in reversed(range(len(graph.nodes))):
        if position in covered:
            continue
        site, misses = _match_node(graph, patterns, position)
        if site is None:
            remarks += misses
            continue
        if not any(graph.use_count(value) for value in site[1].outputs):
            continue  # nobody reads what would be replaced, but the node has another result
        if any(value in taken for value in site[1].outputs):
            continue  # one of several results that another site replaces: in the next round
        if not _comes_after_its_operands(site[1]):
            if not sites and not _depends_on_itself(site[1]):
                return [site], ()  # alone, as it changes the order of the nodes
            continue
        sites.append(site)
        taken.update(site[1].outputs)
        covered |= _private(graph, site[1])
    return sites, tuple(dict.fromkeys(reversed(remarks)))


def _match_node(
    graph: Graph, patterns: Sequence[Pattern], position: int
) -> tuple[_Site | None, list[Remark]]:
    nearest: dict[str, Miss] = {}
    for pattern in patterns:
        root = pattern.outputs[0]
        if type(graph.nodes[position].op) is not type(pattern.nodes[root.node].op):
            continue
        if not graph.use_count(Value(position, root.result)):
            continue  # one of several results, and nobody reads it
        result = match_at(pattern, graph, Value(position, root.result))
        if isinstance(result, Site):
            return (pattern.rule, result), []
        name = pattern.rule.name
        near = 2 * result.matched > pattern.size
        if near and (name not in nearest or result.matched > nearest[name].matched):
            nearest[name] = result
    return None, [
        Remark(f"{name}: {miss.reason}", graph.nodes[miss.position].location)
        for name, miss in nearest.items()
    ]


def _private(graph: Graph, site: Site) -> set[int]:
    """Return the matched nodes that only matched nodes read: they disappear."""
    outputs = {value.node for value in graph.outputs}
    return {
        position
        for position in site.interior
        if position != site.outputs[0].node
        and position not in outputs
        and all(
            reader in site.interior
            for i in range(len(graph.nodes[position].types))
            for reader in graph.uses.get(Value(position, i), ())
        )
    }


def _comes_after_its_operands(site: Site) -> bool:
    """Whether the order of the nodes can stay: true for every site with one result."""
    first = min(value.node for value in site.outputs)
    return all(value.node < first for value in site.bound.values())


def _depends_on_itself(site: Site) -> bool:
    needed = site.graph.needed(site.bound.values())
    return any(value.node in needed for value in site.outputs)


def replace_sites(graph: Graph, sites: Sequence[_Site]) -> Graph:
    """Return the graph with the right side at every site, where the sites do not overlap."""
    replaced = {value: each for each in sites for value in each[1].outputs}
    builder = GraphBuilder(graph.name)
    moved: dict[Value, Value] = {}

    def ensure(value: Value) -> Value:
        if value in moved:
            return moved[value]
        node = graph.nodes[value.node]
        if value in replaced:
            rule, site = replaced[value]
            operands = [ensure(site.bound[name]) for name in rule.operands]
            results = right_side(builder, rule, site, operands)
            moved.update(zip(site.outputs, results, strict=True))
        else:
            operands = [ensure(operand) for operand in node.operands]
            with builder.at(node.location):
                results = builder.add_multi(node.op, *operands)
            for i, result in enumerate(results):
                if Value(value.node, i) not in replaced:
                    moved[Value(value.node, i)] = result
        return moved[value]

    for position, node in enumerate(graph.nodes):
        for i in range(len(node.types)):
            ensure(Value(position, i))
    return builder.build(*(moved[value] for value in graph.outputs))
